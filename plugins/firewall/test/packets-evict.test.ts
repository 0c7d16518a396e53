/** D72: a new drop ends the connections that it forbids, and those only. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { CLIENT, lab, type Peer, ROUTER, SERVER, sees, type Talk, tcp, udp } from './lab.ts'

requireRoot(t)
const { client, other, server, node, router, rule, put, reset, agent } = await lab(t)
/** Ports of the server that speak unasked. */
const TICKING = [1100, 1101]
for (const machine of [server, node]) {
  for (const proto of ['udp', 'tcp'] as const) await machine.serve(proto, [1000, 1001])
  for (const proto of ['udp', 'tcp'] as const) await machine.serve(proto, TICKING, 5)
}

const deny = () => put('/api/v1/rules/default', { default_action: 'deny' })

/** Opens conversations and sees them live. */
async function talks<T extends string>(
  t: { ok(value: unknown, message: string): unknown },
  targets: Record<T, [Peer, ReturnType<typeof tcp>]>,
): Promise<Record<T, Talk>> {
  const open = {} as Record<T, Talk>
  for (const [name, [peer, target]] of Object.entries(targets) as [T, [Peer, ReturnType<typeof tcp>]][]) {
    open[name] = await peer.open(target)
    t.ok(await open[name].lives(), `control: ${name} lives`)
  }
  return open
}

for (const [family, host, self] of [
  ['IPv4', SERVER.v4, ROUTER.v4],
  ['IPv6', SERVER.v6, ROUTER.v6],
] as const) {
  t.test(`D72 a new drop ends established connections, ${family}`, async (t) => {
    const { through, to, datagrams, beside } = await talks(t, {
      through: [client, tcp(host, 1000)],
      to: [client, tcp(self, 1000)],
      datagrams: [client, udp(host, 1000)],
      beside: [client, tcp(host, 1001)],
    })
    await rule({ action: 'drop', dest_port: 1000 })
    const [routed, local, udpDead] = await Promise.all([through.dies(), to.dies(), datagrams.dies()])
    t.ok(routed, 'TCP through the node')
    t.ok(local, 'TCP to the node')
    t.ok(udpDead, 'UDP')
    t.ok(await beside.lives(), 'another port lives')
    await reset()
    t.ok(await through.lives(), 'nobody was told: what is allowed again goes on')
  })

  t.test(`D72 a new drop with a MAC or an interface ends the connections from there, ${family}`, async (t) => {
    for (const where of [{ mac: CLIENT.mac }, { interface: 'r1' }]) {
      const { ours, theirs, beside } = await talks(t, {
        ours: [client, tcp(host, 1000)],
        theirs: [other, tcp(host, 1000)],
        beside: [client, tcp(host, 1001)],
      })
      await rule({ action: 'drop', ...where, dest_port: 1000 })
      t.ok(await ours.dies(), `${JSON.stringify(where)}: the connection from there is ended`)
      t.ok(await theirs.lives(), 'the same from elsewhere lives')
      t.ok(await beside.lives(), 'another port lives')
      await reset()
    }
  })

  t.test(`D72 a drop of one source or destination ends only its connections, ${family}`, async (t) => {
    const [near, far] = family === 'IPv4' ? [CLIENT.v4, CLIENT.second4] : [CLIENT.v6, CLIENT.second6]
    const prefix = family === 'IPv4' ? '10.1.0.0/25' : 'fd01::/65'
    for (const source_ip of [near, prefix]) {
      const { ours, theirs } = await talks(t, {
        ours: [client, tcp(host, 1000, { from: near })],
        theirs: [client, tcp(host, 1000, { from: far })],
      })
      await rule({ action: 'drop', source_ip })
      t.ok(await ours.dies(), `${source_ip}: its connection is ended`)
      t.ok(await theirs.lives(), 'the one from another address lives')
      await reset()
    }
  })

  t.test(`D72 a connection on which the other end speaks is ended as well, ${family}`, async (t) => {
    for (const [where, target] of [
      ['through the node', tcp(host, 1100)],
      ['to the node', tcp(self, 1100)],
    ] as const) {
      const stream = await client.open(target)
      const beside = await client.open({ ...target, port: 1101 })
      t.ok(await stream.hears(), `control: ${where} the stream runs`)
      await rule({ action: 'drop', protocol: 'tcp', dest_port: 1100 })
      t.ok(await stream.deaf(), `${where} it is ended`)
      t.ok(await stream.dies(), 'and nothing brings it back')
      t.ok(await beside.hears(), 'another port goes on')
      await reset()
    }
  })
}

t.test('D72 datagrams are dropped even while the other end goes on to send', async (t) => {
  for (const [peer, host, where] of [
    [server, SERVER.v4, 'through the node'],
    [server, SERVER.v6, 'through the node, IPv6'],
    [node, ROUTER.v4, 'to the node'],
  ] as const) {
    const talk = await client.open(udp(host, 1100))
    t.ok(await talk.lives(), `control: ${where} it lives`)
    await rule({ action: 'drop', protocol: 'udp', dest_port: 1100 })
    const before = await peer.heard(1100, 0)
    await talk.dies()
    await talk.dies()
    t.equal(await peer.heard(1100, before + 1), before, `${where} what the client says does not arrive`)
    await reset()
    t.ok(await talk.lives(), 'control: it was the rule')
  }
})

t.test('D72 a connection that an accept of higher rank admits survives', async (t) => {
  const accepts = [{}, { source_ip: '10.1.0.0/24' }, { interface: 'r1' }, { mac: CLIENT.mac }]
  for (const accept of accepts) {
    await deny()
    await rule({ action: 'accept', protocol: 'tcp', dest_port: 1100, priority: 10, ...accept })
    await rule({ action: 'accept', protocol: 'tcp', dest_port: 1101, priority: 30 })
    // The other end speaks and this one only acknowledges: a connection that conntrack forgot would stand still.
    const [stream, doomed] = [await client.open(tcp(SERVER.v4, 1100)), await client.open(tcp(SERVER.v4, 1101))]
    t.ok((await stream.hears()) && (await doomed.hears()), 'control: both streams run')
    const before = entry(1100)
    await rule({ action: 'drop', protocol: 'tcp', dest_port: 1100, dest_port_max: 1101, priority: 20 })
    t.ok(await doomed.deaf(), 'control: the one that an accept of lower rank admitted is ended')
    t.equal(entry(1100), before, `${JSON.stringify(accept)}: conntrack has not forgotten the other`)
    t.ok(await stream.hears(), 'it goes on')
    await rule({ action: 'drop', protocol: 'tcp', dest_port: 1100, priority: 9 })
    t.ok(await stream.deaf(), 'control: a drop of higher rank ends it')
    await reset()
  }
})

/** The id under which conntrack knows the newest connection to `port` that goes on. */
function entry(port: number): string | undefined {
  const list = router.run('conntrack', '-L', '-p', 'tcp', '--orig-port-dst', String(port), '-o', 'id')
  return /ESTABLISHED.* id=(\d+)/.exec(list)?.[1]
}

t.test('D72 a replacement, a batch and a schedule end connections as a creation does', async (t) => {
  const ways: Record<string, () => Promise<unknown>> = {
    'PUT of an accept to a drop': async () => {
      const id = await rule({ action: 'accept', dest_port: 1000 })
      await put(`/api/v1/rules/${id}`, { action: 'drop', dest_port: 1000 })
    },
    'PUT of a drop to another port': async () => {
      const id = await rule({ action: 'drop', dest_port: 1999 })
      await put(`/api/v1/rules/${id}`, { action: 'drop', dest_port: 1000 })
    },
    batch: () =>
      agent.call('POST', '/api/v1/rules/batch', {
        rules: [
          { action: 'accept', dest_port: 1001 },
          { action: 'drop', dest_port: 1000 },
        ],
      }),
    'the end of a schedule': async () => {
      const id = await rule({ action: 'drop', dest_port: 1999 })
      const schedule = `/control/v1/firewall/rules/${id}/schedule`
      await put(schedule, { from: '2001-01-01T00:00:00Z', to: '2001-01-02T00:00:00Z' })
      await put(`/api/v1/rules/${id}`, { action: 'drop', dest_port: 1000 })
      t.ok(await latest?.lives(), 'outside its window the rule ends nothing')
      const rules = (await agent.call('GET', '/api/v1/rules')).body.rules as { id: number }[]
      await agent.call('DELETE', `/control/v1/firewall/rules/${rules[0]?.id}/schedule`)
    },
  }
  let latest: Talk | undefined
  for (const [way, work] of Object.entries(ways)) {
    const { doomed, beside } = await talks(t, {
      doomed: [client, tcp(SERVER.v4, 1000)],
      beside: [client, tcp(SERVER.v4, 1001)],
    })
    latest = doomed
    await work()
    t.ok(await doomed.dies(), `${way} ends it`)
    t.ok(await beside.lives(), 'another port lives')
    await reset()
  }
})

t.test('D72 D70 a drop that comes into force by its schedule ends the connections', async (t) => {
  const [doomed, beside] = [await client.open(tcp(SERVER.v4, 1100)), await client.open(tcp(SERVER.v4, 1101))]
  const id = await rule({ action: 'drop', dest_port: 1999 })
  const time = (ms: number) => new Date(Date.now() + ms).toISOString()
  await put(`/control/v1/firewall/rules/${id}/schedule`, { from: time(2000), to: time(600_000) })
  await put(`/api/v1/rules/${id}`, { action: 'drop', dest_port: 1100 })
  t.ok((await doomed.hears()) && (await beside.hears()), 'before it opens nothing ends')
  await sees(t, client, { pass: [tcp(SERVER.v4, 1100)] }, 'nor does the kernel drop anything')
  t.ok(await doomed.deaf(), 'it is ended')
  await sees(t, client, { drop: [tcp(SERVER.v4, 1100)], pass: [tcp(SERVER.v4, 1101)] }, 'the kernel keeps the window')
  t.ok(await beside.hears(), 'another port goes on')
  await reset()
})

t.test('D72 a forwarded connection is ended by its address before translation', async (t) => {
  router.run('nft', 'add', 'table', 'ip', 'teststand')
  router.run('nft', 'add chain ip teststand pre { type nat hook prerouting priority dstnat; }')
  router.run('nft', `add rule ip teststand pre ip daddr ${ROUTER.v4} tcp dport 7777 dnat to ${SERVER.v4}:1000`)
  const { forwarded, direct } = await talks(t, {
    forwarded: [client, tcp(ROUTER.v4, 7777)],
    direct: [client, tcp(SERVER.v4, 1000)],
  })
  await rule({ action: 'drop', dest_ip: SERVER.v4, dest_port: 1000 })
  t.ok(await direct.dies(), 'a drop on the target ends the direct one')
  t.ok(await forwarded.lives(), 'and not the forwarded one')
  await rule({ action: 'drop', dest_ip: ROUTER.v4, dest_port: 7777 })
  t.ok(await forwarded.dies(), 'a drop on the public address does')
  await reset()
  router.run('nft', 'delete', 'table', 'ip', 'teststand')
})

t.test('D72 what the node asks itself is not ended by a drop of what arrives', async (t) => {
  const { outward, inward } = await talks(t, {
    outward: [node, tcp(SERVER.v4, 1000)],
    inward: [client, tcp(SERVER.v4, 1000)],
  })
  await rule({ action: 'drop', dest_port: 1000 })
  t.ok(await inward.dies(), 'control: the drop is in force')
  t.ok(await outward.lives(), 'the connection of the node lives')
  await reset()
})
