/** Default deny: what it drops, what it must not cut off, and how literal it gets without the failsafes. */
import t from 'tap'
import { overTls } from '../../../test/agent.ts'
import { CLIENT, lab, ping, ROUTER, SERVER, sees, tcp, udp } from './lab.ts'
import { judged, requireLane, SPARING } from './lane.ts'

requireLane(t)
const { client, other, server, node, router, rule, put, reset, agent } = await lab(t)
const PORTS = [1000, 1001]
for (const machine of [server, node]) for (const proto of ['udp', 'tcp'] as const) await machine.serve(proto, PORTS)
await client.serve('tcp', [1000])
for (const machine of [server, node]) await machine.serve('udp', [68, 546])

const deny = () => put('/api/v1/rules/default', { default_action: 'deny' })
const API = { v4: `https://${ROUTER.v4}:7070`, v6: `https://[${ROUTER.v6}]:7070` }
const status = async (from: typeof client, base: string) =>
  (await overTls(from.ns, base, 5000)('GET', '/api/v1/rules/default')).status
const cut = (from: typeof client, base: string) => overTls(from.ns, base, 400)('GET', '/api/v1/rules/default')
/** A change of configuration is carried out in the order of all changes: after the next one it is in force. */
const configure = async (key: string, value: string) => {
  await put(`/control/v1/config/${key}`, { value })
  await deny()
}

const everywhere = [SERVER.v4, SERVER.v6, ROUTER.v4, ROUTER.v6]
const all = everywhere.flatMap((host) => [tcp(host, 1000), udp(host, 1000), ping(host)])

judged('fw-38 default deny drops unmatched traffic to the node and through it; allow passes it', async (t) => {
  await sees(t, client, { pass: all }, 'allow passes')
  await deny()
  await sees(t, client, { drop: all }, 'deny drops')
  await rule({ action: 'accept', dest_port: 1000 })
  const [pass, drop] = [all.filter(({ proto }) => proto !== 'ping'), all.filter(({ proto }) => proto === 'ping')]
  await sees(t, client, { pass, drop: [...drop, tcp(SERVER.v4, 1001)] }, 'except what a rule accepts')
  await reset()
  await sees(t, client, { pass: all }, 'allow passes again')
})

judged('fw-39 replies to a connection that an accept rule admitted pass under default deny', async (t) => {
  await deny()
  await rule({ action: 'accept', interface: 'r1' })
  await sees(t, client, { pass: all }, 'the client has its answers')
  await sees(
    t,
    server,
    { drop: [tcp(CLIENT.v4, 1000), tcp(CLIENT.v6, 1000), ping(CLIENT.v4)] },
    'the server begins none',
  )
  await rule({ action: 'accept', interface: 'r2', dest_port: 1000 })
  await sees(t, server, { pass: [tcp(CLIENT.v4, 1000), tcp(CLIENT.v6, 1000)] }, 'control: it could')
  await reset()
})

judged('fw-39 the node has the answers to what it asks itself', async (t) => {
  await deny()
  await sees(t, node, { pass: [tcp(SERVER.v4, 1000), udp(SERVER.v6, 1000), ping(SERVER.v4)] }, 'from the node')
  await sees(t, client, { drop: [tcp(SERVER.v4, 1000)] }, 'control: deny is in force')
  await reset()
})

judged('fw-39 D71 an error about an admitted connection passes, and what stands when deny comes stays', async (t) => {
  // An error of ICMP ends up in a connected socket, and its process says so.
  const unanswered = `const s = require('node:dgram').createSocket('udp4').on('error', (e) => { console.log(e.code); process.exit() })
    s.connect(1002, '${SERVER.v4}', () => s.send('?')); setTimeout(() => process.exit(), 3000)`
  const standing = await client.open(tcp(SERVER.v4, 1001))
  await deny()
  t.ok(await standing.lives(), 'a connection that stood before is left alone')
  await sees(t, client, { drop: [tcp(SERVER.v4, 1001)] }, 'control: a new one is not admitted')
  await rule({ action: 'accept', protocol: 'udp', dest_port: 1002 })
  t.equal(client.ns.run(process.execPath, '-e', unanswered).trim(), 'ECONNREFUSED', 'port unreachable')
  await reset()
})

judged('D71 default deny spares neighbour discovery', async (t) => {
  await deny()
  await rule({ action: 'accept', dest_port: 1000 })
  const pass = [tcp(SERVER.v6, 1000), udp(ROUTER.v6, 1000)]
  const forget = () => {
    for (const { ns } of [client, server, node]) ns.run('ip', '-6', 'neigh', 'flush', 'all')
  }
  forget()
  await sees(t, client, { pass, drop: [ping(SERVER.v6)] }, 'neighbours are found again')
  await configure('firewall_failsafe', 'off')
  forget()
  await sees(t, client, { drop: pass, pass: [tcp(SERVER.v4, 1000)] }, 'firewall_failsafe off is the literal deny')
  await configure('firewall_failsafe', 'on')
  await sees(t, client, { pass }, 'and on again')
  await rule({ action: 'drop', dest_ip: '::/0', priority: 0, level: 'global' })
  await rule({ action: 'drop', dest_ip: 'ff00::/8' })
  forget()
  await sees(t, client, { drop: [udp(ROUTER.v6, 1001)], pass: [tcp(SERVER.v4, 1000)] }, 'an explicit drop wins')
  await reset()
})

judged('D71 default deny spares loopback', async (t) => {
  const local = [tcp('127.0.0.1', 1000), udp('::1', 1000), tcp(ROUTER.v4, 1000), ping('127.0.0.1')]
  await deny()
  await sees(t, node, { pass: local }, 'the node speaks to itself')
  await rule({ action: 'drop', interface: 'lo', dest_port: 1000 })
  await sees(t, node, { drop: [tcp('127.0.0.1', 1000)], pass: [ping('127.0.0.1')] }, 'an explicit drop wins')
  await reset()
  await configure('firewall_failsafe', 'off')
  await sees(t, node, { drop: local }, 'firewall_failsafe off is the literal deny')
  await configure('firewall_failsafe', 'on')
  await reset()
})

judged('D71 default deny spares replies to a DHCP client', async (t) => {
  const [four, six] = [udp(ROUTER.v4, 68, { sport: 67 }), udp(ROUTER.v6, 546, { sport: 547 })]
  const others = [udp(ROUTER.v4, 68, { sport: 69 }), udp(ROUTER.v6, 546, { sport: 548 }), udp(ROUTER.v4, 1000)]
  await sees(t, client, { pass: [...others, four, six] }, 'control: allow')
  await deny()
  // The ports of the control are known to conntrack, so the dropped ones are new.
  const strange = [udp(ROUTER.v4, 68, { sport: 70 }), udp(ROUTER.v6, 546, { sport: 549 })]
  await sees(t, client, { pass: [four, six], drop: strange }, 'ports 67 to 68 and 547 to 546 only')
  const routed = [udp(SERVER.v4, 68, { sport: 67 }), udp(SERVER.v6, 546, { sport: 547 })]
  await sees(t, client, { drop: routed }, 'those to a machine behind the node are judged like all else')
  await rule({ action: 'accept', protocol: 'udp', source_port: 67 })
  await sees(t, client, { pass: routed.slice(0, 1) }, 'control: that machine answers')
  await reset()
  await deny()
  await configure('firewall_failsafe', 'off')
  const sources = { from: CLIENT.second4 }
  await sees(t, client, { drop: [udp(ROUTER.v4, 68, { sport: 67, ...sources })] }, 'none without the failsafes')
  await configure('firewall_failsafe', 'on')
  await sees(t, client, { pass: [udp(ROUTER.v4, 68, { sport: 67, ...sources })] }, 'control: it was the failsafes')
  await reset()
})

judged('D71 default deny spares the API of the node, and of the node only', async (t) => {
  await server.serve('tcp', [7070])
  await deny()
  t.equal(await status(client, API.v4), 200, 'IPv4')
  t.equal(await status(client, API.v6), 200, 'IPv6')
  await sees(t, client, { drop: [tcp(SERVER.v4, 7070)] }, 'the same port of another machine is not spared')
  await rule({ action: 'drop', dest_port: 7070 })
  await t.rejects(cut(client, API.v4), { message: /no answer within/ }, 'an explicit drop wins')
  await reset()
  await configure('firewall_failsafe', 'off')
  await t.rejects(cut(client, API.v4), { message: /no answer within/ }, 'firewall_failsafe off is the literal deny')
  await configure('firewall_failsafe', 'on')
  t.equal(await status(client, API.v4), 200, 'and on again')
  await reset()
})

judged('D71 with api_allowed_ips only those addresses are spared', async (t) => {
  await deny()
  await configure('api_allowed_ips', `${CLIENT.v4}, fd01::/64`)
  t.equal(await status(client, API.v4), 200, 'a listed address')
  t.equal(await status(client, API.v6), 200, 'a listed prefix')
  await t.rejects(cut(other, API.v4), { message: /no answer within/ }, 'an address that is not listed')
  await put('/api/v1/rules/default', { default_action: 'allow' })
  t.equal(await status(other, API.v4), 403, 'control: it is reachable, and refused, under allow')
  await configure('api_allowed_ips', '')
  t.equal(await status(other, API.v4), 200, 'an empty list is every address')
  await reset()
})

judged('promise 3: what the agent did not make is not touched by any of this', async (t) => {
  t.notMatch(
    router.run('nft', 'list', 'tables'),
    /table (?!(inet|bridge) stratum)/,
    'only tables named stratum are there',
  )
  t.equal(agent.child.exitCode, null)
})

judged('D27 promise 1: firewall_failsafe is in force when its change is answered', async (t) => {
  await deny()
  const rules = () => router.run('nft', 'list', 'chain', 'inet', 'stratum', SPARING)
  t.match(rules(), /nd-neighbor-solicit/, 'control')
  // So many rules that a change which is only under way would show.
  const many = Array.from({ length: 3000 }, (_, at) => ({ action: 'accept', dest_port: at + 1 }))
  await agent.call('POST', '/api/v1/rules/batch', { rules: many })
  for (const value of ['off', 'on', 'off', 'on', 'off']) {
    await put('/control/v1/config/firewall_failsafe', { value })
    t.equal(rules().includes('nd-neighbor-solicit'), value === 'on', value)
  }
})
