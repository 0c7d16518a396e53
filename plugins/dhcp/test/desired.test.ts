/** What the responder is told: networks that are served, and who is bound in them. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { type DhcpArea, dhcpArea, MAC, OTHER, P } from './area.ts'

const set = (area: DhcpArea, id: string, body?: object) =>
  area.ok(body ? 'PUT' : 'DELETE', `${P}/networks/${id}/host-gateway`, body)

t.test('net-42 net-46 net-49 a network is served while it has the option, with everything bound in it', async (t) => {
  const area = await dhcpArea(t, { config: { uplink: 'away0' } })
  const id = await area.create({ snat: true })
  await area.attach(id, '10.0.0.5')
  const served = {
    ...{ kind: 'dhcp_network', key: 'dhcp/network/1', net: 1, link: 'br-work', cidr: '10.0.0.0/24' },
    ...{ gateway: '10.0.0.1', leaseSeconds: 3600, mtu: 0, dns: [], domain: '' },
  }
  const bound = {
    kind: 'dhcp_binding',
    key: 'dhcp/binding/1/10.0.0.5',
    net: 1,
    address: '10.0.0.5',
    mac: MAC,
    hostname: '',
  }
  t.same([[...area.networks().values()], [...area.bindings().values()]], [[served], [bound]])
  t.match(area.plane.entries.get('networks/net/1'), { dhcp: true }, 'and no machine may serve it')
  await set(area, id, { snat: true })
  t.same([area.networks().size, area.bindings().size], [0, 0], 'the body is the whole setting')
  t.notOk((area.plane.entries.get('networks/net/1') as { dhcp?: boolean }).dhcp)
  await area.attach(id, '10.0.0.6', OTHER)
  t.equal(area.bindings().size, 0, 'what is bound elsewhere is no matter')
  await set(area, id, { dhcp: true })
  t.same([[...area.networks().keys()], [...area.bindings().keys()].sort()], [['1'], ['1/10.0.0.5', '1/10.0.0.6']])
  await set(area, id)
  t.same([area.networks().size, area.bindings().size], [0, 0])
})

t.test('a change that the responder refuses never was', async (t) => {
  const area = await dhcpArea(t)
  const id = await area.create()
  const before = [...area.plane.entries]
  area.plane.refuse = new KernelRefusal('cannot serve DHCP on br-work: UDP port 67 is in use')
  const answer = await area.call('POST', `${P}/networks/${id}/attach`, { ip: '10.0.0.5' })
  t.same(
    [answer.status, answer.body.error],
    [409, 'the kernel refused the change: cannot serve DHCP on br-work: UDP port 67 is in use'],
  )
  t.same([...area.plane.entries], before)
})

t.test('settings hold for every network at once', async (t) => {
  const area = await dhcpArea(t)
  await area.create()
  await area.create({ cidr: '10.2.0.0/24', gateway: '10.2.0.9' })
  const put = (key: string, value: string) => area.control('PUT', `/control/v1/config/${key}`, { value })
  for (const [key, value] of [
    ...[['dhcp_lease_seconds', '600'] as const, ['dhcp_dns', 'gateway, 9.9.9.9'] as const],
    ...[['dhcp_domain', 'lab.example.org'] as const, ['dhcp_mtu', '1400'] as const],
  ])
    t.equal((await put(key, value)).status, 200, key)
  const told = { leaseSeconds: 600, domain: 'lab.example.org', mtu: 1400 }
  t.match(Object.fromEntries(area.networks()), {
    1: { ...told, dns: ['10.0.0.1', '9.9.9.9'] },
    2: { ...told, dns: ['10.2.0.9', '9.9.9.9'] },
  })
  for (const [key, value] of [
    ...[['dhcp_lease_seconds', '59'] as const, ['dhcp_lease_seconds', '604801'] as const, ['dhcp_dns', 'x'] as const],
    ...[['dhcp_dns', 'fd00::1'] as const, ['dhcp_domain', 'a b'] as const, ['dhcp_mtu', '100'] as const],
    ['dhcp_dns', Array.from({ length: 9 }, (_, n) => `9.9.9.${n}`).join()] as const,
  ])
    t.equal((await put(key, value)).status, 400, `${key} ${value}`)
})

t.test('a guest is told the name of its machine where that is a host name', async (t) => {
  const area = await dhcpArea(t)
  await area.create()
  for (const [name, ip] of [
    ['web-1', '10.0.0.5'],
    ['my web', '10.0.0.6'],
    ['a.b', '10.0.0.7'],
  ]) {
    await area.control('POST', '/control/v1/compute/machines', { machine: name, network: 'n1', ip })
  }
  t.same(Array.from(area.bindings().values(), ({ hostname }) => hostname).filter(Boolean), ['web-1'])
})

const kind = fc.constantFrom(
  'create',
  'delete',
  'serve',
  'serve',
  'attach',
  'attach',
  'attach',
  'detach',
  'mac',
  'reserve',
  'unreserve',
  'grant',
  'grant',
  'release',
  'machine',
)
const step = fc.record({
  kind,
  a: fc.nat(99),
  b: fc.nat(99),
  flag: fc.boolean(),
  refuse: fc.nat(9).map((n) => n === 0),
})

t.test('any sequence of changes: what the responder holds is what follows from the rows', async (t) => {
  const area = await dhcpArea(t)
  const met = new Map<string, number>()
  const listed = async () => (await area.ok('GET', `${P}/networks`)).networks as { id: string; cidr: string }[]
  const macs = [MAC, OTHER, '02:00:00:00:00:07']
  let at = area.clock.now
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30, size: 'max' }), async (steps) => {
      for (const { kind, a, b, flag, refuse } of steps) {
        const all = await listed()
        const { id = 'none', cidr = '10.0.0.0/29' } = all[a % Math.max(1, all.length)] ?? {}
        const ip = cidr.replace(/0\/29$/, String(2 + (b % 5)))
        const mac = macs[b % 3] ?? MAC
        const of = `${P}/networks/${id}`
        const { endpoints = [] } = (await area.call('GET', `${of}/endpoints`)).body as {
          endpoints?: { id: string; ip: string; state: string }[]
        }
        const endpoint = endpoints.find((one) => one.ip === ip)?.id ?? 'none'
        if (refuse) area.plane.refuse = new KernelRefusal('made up')
        let answer: { status: number } | undefined
        if (kind === 'create') {
          const n = a % 4
          answer = await area.call('POST', `${P}/networks`, {
            name: `p${n}`,
            cidr: `10.${n}.0.0/29`,
            gateway: `10.${n}.0.1`,
            dhcp: flag,
          })
        } else if (kind === 'delete') {
          for (const one of flag ? endpoints : []) {
            if (one.state === 'bound') await area.call('POST', `${of}/endpoints/${one.id}/detach`)
          }
          answer = await area.call('DELETE', of)
        } else if (kind === 'serve') answer = await area.call('PUT', `${of}/host-gateway`, { dhcp: flag })
        else if (kind === 'attach') answer = await area.call('POST', `${of}/attach`, { ip, ...(flag && { mac }) })
        else if (kind === 'detach') answer = await area.call('POST', `${of}/endpoints/${endpoint}/detach`)
        else if (kind === 'mac') answer = await area.call('PUT', `${of}/endpoints/${endpoint}/mac`, { mac })
        else if (kind === 'machine')
          answer = await area.control('POST', '/control/v1/compute/machines', {
            machine: `vm${b % 3}`,
            network: id,
            ip,
          })
        else if (kind === 'reserve') answer = await area.control('POST', '/control/v1/dhcp/reservations', { mac, ip })
        else if (kind === 'unreserve') {
          const { reservations } = (await area.control('GET', '/control/v1/dhcp/reservations')).body
          const [which = { ip }] = reservations as { ip: string }[]
          answer = await area.control('DELETE', `/control/v1/dhcp/reservations/${which.ip}`)
        } else if (kind === 'release') answer = await area.control('POST', '/control/v1/dhcp/releases', { which: ip })
        else {
          const bound = [...area.bindings().values()][b % Math.max(1, area.bindings().size)]
          area.plane.refuse = undefined
          if (bound) {
            const { net, address } = bound
            await area.hear({ net, address, mac: bound.mac, at: ++at })
            answer = { status: 200 }
          }
        }
        area.plane.refuse = undefined
        if (answer && answer.status >= 500) throw new Error(`${kind}: ${answer.status}`)
        if (answer && answer.status < 300) met.set(kind, (met.get(kind) ?? 0) + 1)
      }
      const { read } = area.agent.store
      const text = (entries: Iterable<object>) => Array.from(entries, (one) => JSON.stringify(one)).sort()
      const held = text([...area.plane.entries.values()].filter(({ key }) => key.startsWith('dhcp/')))
      const rendered = [...desired.all(read, area.agent.config)]
      const ids = rendered.map((entry) => {
        if (entry.kind === 'dhcp_network') return `net/${entry.net}`
        if (entry.kind !== 'dhcp_binding') throw new Error(entry.kind)
        return `binding/${entry.net}/${entry.address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)}`
      })
      const ones = text(ids.flatMap((id) => desired.one(read, id, area.agent.config)))
      if (held.join('\n') !== text(rendered).join('\n'))
        throw new Error(`held\n${held.join('\n')}\nrendered\n${text(rendered).join('\n')}`)
      if (ones.join('\n') !== held.join('\n')) throw new Error('one by one')
    }),
    { numRuns: Number(process.env.CHANGES ?? 15), seed: Number(process.env.SEED ?? 1) },
  )
  for (const name of [
    'create',
    'delete',
    'serve',
    'attach',
    'detach',
    'mac',
    'reserve',
    'unreserve',
    'grant',
    'machine',
  ]) {
    t.ok(met.has(name), `control: ${name} succeeded at times`)
  }
})
