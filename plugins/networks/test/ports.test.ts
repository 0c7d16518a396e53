/** The device of an endpoint over REST, what is stored of it, and what the data plane is asked for. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { system } from '../../../core/state/events.ts'
import { noteClaims } from '../places.ts'
import { WARNING } from '../roaming.ts'
import type { Endpoint } from '../schemas.ts'
import { type Networks, NOW, networks, P } from './area.ts'

async function set({ agent }: Networks, endpoint_ports: string): Promise<void> {
  agent.overrides.change((content) => Object.assign(content.config, { endpoint_ports }))
  await agent.config.reload()
}

const put = ({ call }: Networks, { network_id, id }: Endpoint, what: 'mac' | 'port', body: object) =>
  call('PUT', `${P}/networks/${network_id}/endpoints/${id}/${what}`, body)

/** What the data plane is asked for about an endpoint: its device, or who may take it. */
function asked({ plane }: Networks, { ip }: Endpoint): unknown {
  const entry = plane.entries.get(`networks/binding/1/${ip}`) as { port?: string; claims?: string } | undefined
  return entry?.port ?? entry?.claims ?? 'any'
}

t.test('a port is named at the attach, later, otherwise, or no more', async (t) => {
  const area = await networks(t)
  const [network, other] = [await area.create(), await area.create({ cidr: '10.1.0.0/24' })]
  const one = await area.attach(network, { ip: '10.0.0.5', port: 'tap1' })
  t.equal(one.port, 'tap1')
  t.equal(asked(area, one), 'tap1')
  t.match(await area.attach(network, { ip: '10.0.0.5' }), { port: 'tap1' }, 'as it is')
  const again = await area.call('POST', `${P}/networks/${network.id}/attach`, { ip: '10.0.0.5', port: 'tap2' })
  t.match(again, { status: 409, text: /change its port, or detach it first/ })
  t.match((await put(area, one, 'port', { port: 'tap2' })).body, { status: 'updated', endpoint: { port: 'tap2' } })
  t.equal(asked(area, one), 'tap2')
  const mac = '02:00:00:00:00:01'
  t.match((await put(area, one, 'mac', { mac })).body, { endpoint: { mac, port: 'tap2' } }, 'another MAC')
  t.match((await put(area, one, 'mac', { mac, port: 'tap3' })).body, { endpoint: { mac, port: 'tap3' } })
  t.equal(asked(area, one), 'tap3')

  const two = await area.attach(other, { ip: '10.1.0.5' })
  t.match(await put(area, two, 'port', { port: 'tap3' }), { status: 409, text: /declared by endpoint ep-0001/ })
  t.match((await put(area, one, 'port', { port: '' })).body, { endpoint: { port: undefined } })
  t.equal(asked(area, one), 'any')
  t.equal((await put(area, two, 'port', { port: 'tap3' })).status, 200, 'one device, one network')
  t.match(await area.attach(network, { ip: '10.0.0.5', port: 'tap4' }), { port: 'tap4' }, 'to one that has none')
  await area.detach(one)
  t.match(await put(area, one, 'port', { port: 'tap1' }), { status: 409, text: /is free; attach it/ })
  t.match(await put(area, one, 'mac', { mac, port: 'tap1' }), { status: 409, text: /is free; attach it/ })
  t.equal((await put(area, one, 'port', { port: '' })).status, 200)
  for (const port of ['no such', 'a/b', '.', 'x'.repeat(16), 7])
    t.equal((await put(area, two, 'port', { port })).status, 400, String(port))
  const types = area.events().map(({ type }) => type)
  t.equal(types.filter((type) => type === 'endpoint.updated').length, 6)
})

t.test('endpoint_ports says who may take an endpoint without a port', async (t) => {
  const area = await networks(t)
  const network = await area.create()
  const [named, free] = [await area.attach(network, { port: 'tap1' }), await area.attach(network)]
  for (const [value, claims] of [
    ['sticky', 'first'],
    ['named', 'none'],
    ['roam', 'any'],
  ] as const) {
    await set(area, value)
    t.same([asked(area, named), asked(area, free)], ['tap1', claims], value)
  }
  t.equal(area.agent.config.problem('endpoint_ports', 'any'), 'must be one of roam, sticky, named')
})

t.test('the first device is kept by name while the setting is sticky, until the port is changed', async (t) => {
  const area = await networks(t, { config: { endpoint_ports: 'sticky' } })
  const network = await area.create()
  const one = await area.attach(network)
  const claim = (port: string, from?: string, at = NOW, now: string | undefined = port) =>
    area.agent.pipeline.mutate('networks', system('test'), (tx) =>
      noteClaims(tx, [{ net: 1, mac: one.mac, port, from, at, now: () => now }], true),
    )
  const shown = async () => (await area.endpoints(network, `?mac=${one.mac}`))[0]
  await claim('')
  await claim('tap0', undefined, '2029-01-01T00:00:00.000Z')
  const other = await area.create({ name: 'other', cidr: '10.1.0.0/24' })
  await area.attach(other, { port: 'tap9' })
  await claim('tap9')
  await area.agent.pipeline.mutate('networks', system('test'), (tx) =>
    noteClaims(tx, [{ net: 1, mac: one.mac, port: 'tap3', from: undefined, at: NOW, now: () => undefined }], true),
  )
  t.equal(
    (await shown())?.kept_port,
    undefined,
    'nor one without name, nor of before the attach, nor of another network, nor one that holds no more',
  )
  area.events()
  await claim('tap8', undefined, NOW, 'tap1')
  t.match(await shown(), { kept_port: 'tap1' }, 'by the name that it has when it is stored')
  t.match(area.events(), [{ type: 'endpoint.updated', data: { kept_port: 'tap1' } }])
  t.equal(asked(area, one), 'tap1')
  await claim('tap2')
  t.match(await shown(), { kept_port: 'tap1' }, 'the first one')
  await put(area, one, 'port', { port: '' })
  t.equal(asked(area, one), 'first', 'anew')
  await claim('tap2')
  t.equal(asked(area, one), 'tap2')
  await set(area, 'roam')
  while ((await shown())?.kept_port !== undefined) await wait(5)
  t.equal(asked(area, one), 'any', 'and is forgotten when the setting is another')
})

t.test('a move is told, with both ports', async (t) => {
  const area = await networks(t)
  const network = await area.create()
  const { id, mac, ip } = await area.attach(network)
  area.events()
  await area.agent.pipeline.mutate('networks', system('test'), (tx) =>
    noteClaims(tx, [{ net: 1, mac, port: 'tap2', from: 'tap1', at: NOW, now: () => 'tap2' }], false),
  )
  const data = { mac, ip, network_id: network.id, endpoint_id: id, old_port: 'tap1', new_port: 'tap2' }
  t.same(area.events(), [{ type: 'endpoint.moved', resource: `${P}/networks/${network.id}/endpoints/${id}`, data }])
})

t.test('a warning while endpoints of several tenants are bound and some have no port', async (t) => {
  const area = await networks(t)
  const warned = async (yes: boolean) => {
    for (;;) {
      const { body } = await area.call('GET', `${P}/status`)
      if ((body.warnings as string[] | undefined)?.includes(WARNING) === (yes || undefined)) return body.status
      await wait(20)
    }
  }
  const [mine, theirs] = [await area.create(), await area.create({ cidr: '10.1.0.0/24', tenant_id: 'acme' })]
  const one = await area.attach(mine)
  t.equal(await warned(false), 'running', 'one tenant')
  await area.attach(theirs, { port: 'tap2' })
  t.equal(await warned(true), 'degraded')
  await put(area, one, 'port', { port: 'tap1' })
  t.equal(await warned(false), 'running', 'every port is named')
  await put(area, one, 'port', { port: '' })
  await warned(true)
  await set(area, 'named')
  t.equal(await warned(false), 'running', 'nobody claims')
})
