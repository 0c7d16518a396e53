/** Whatever makes a node `degraded` is told with what to do about it, and more than where to look. */
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { carriesNothing } from '../../dataplane/bpf/port/guarded.ts'
import { overSocket } from '../../test/agent.ts'
import { type BuiltAgent, buildArea, scratch } from '../../test/build.ts'
import { remedied } from '../agent-state.ts'
import { type AreaContext, defineArea } from '../area.ts'
import { ofServices, type Told } from '../cli/doctor/agent.ts'
import { findingLines } from '../cli/doctor/finding.ts'
import { SOURCES, type Source } from '../health.ts'
import { FACILITIES, remedyFor, remedyForTrouble } from '../remedies.ts'
import { listenControl } from '../transport/listener.ts'

/** Of who knows nothing about the matter: where to look. */
const FALLBACK = /^journalctl/

/** How each source is made to speak. A new one does not compile until it is here. */
const CAUSES: Readonly<Record<Source, (built: BuiltAgent) => unknown>> = {
  async kernel({ agent, plane }) {
    plane.observe = () => Promise.reject(new Error('Device or resource busy'))
    await agent.pipeline.exclusively(() => agent.drift.bring('boot')).catch(() => {})
  },
  store({ agent }) {
    agent.store.write.run(sql.raw('PRAGMA query_only = ON'))
    agent.store.probe()
  },
  waiting({ plane }) {
    plane.pending = () => [{ key: 'dns/listener/x', reason: 'odd' }]
  },
  // The area that cannot start is there from the start.
  ailment() {},
  caution({ agent }) {
    agent.cautions.set('config', { what: 'panel.json must hold one JSON object', remedy: 'correct panel.json' })
  },
  // So is the setting that cannot be used.
  setting() {},
}

let context: AreaContext | undefined
const broken = defineArea(import.meta.url, {
  name: 'broken',
  prefixes: ['/broken'],
  routes() {},
  async start(given) {
    context = given
    throw new Error('no such file')
  },
})

t.test('D32 each source of degraded is told by status and doctor, with what to do', async (t) => {
  const environment = { STRATUM_DRIFT_INTERVAL: 'often' }
  const built = await buildArea(t, 'firewall', { extraAreas: [broken], environment })
  const path = join(scratch(t), 'control.sock')
  const control = await listenControl(built.agent.app.routing.bind(built.agent.app), path)
  t.teardown(() => control.close(0))
  for (const source of SOURCES) await CAUSES[source](built)
  const found = remedied(built.agent)
  t.same([...new Set(found.map(({ source }) => source))].sort(), [...SOURCES].sort())
  for (const { source, what, remedy } of found) t.notMatch(remedy, FALLBACK, `${source}: ${what}`)

  const told = (await overSocket(path)('GET', '/control/v1/services')).body as unknown as Told
  t.same(told.amiss, found)
  t.same(
    told.troubles,
    found.map(({ what }) => what),
  )
  const lines = findingLines(ofServices(told))
  for (const { what, remedy } of found) t.ok(lines.includes(`${what}\n  do: ${remedy}`), what)
  const { body } = await built.call('GET', '/api/v1/status')
  t.match(body, { status: 'degraded', warnings: told.troubles })
})

t.test('D32 D113 an area that does not do its work makes the node degraded until it does', async (t) => {
  const { agent, call } = await buildArea(t, 'firewall', { extraAreas: [broken] })
  const state = async () => {
    const { status, warnings } = (await call('GET', '/api/v1/status')).body
    return [status, warnings]
  }
  t.same(await state(), ['degraded', ['broken could not start: no such file']])
  t.equal(agent.ailing('broken'), 'broken could not start: no such file')
  context?.ails(undefined)
  t.same(await state(), ['running', undefined])
})

t.test('what is known to keep an entry waiting has a remedy of its own', async (t) => {
  const general = remedyForTrouble({ source: 'waiting', what: 'odd' })
  for (const what of [
    "another zebra (pid 7) runs beside this node's own, and each deletes the other's routes",
    carriesNothing('br-work', 'EPERM'),
    carriesNothing('tap0', 'EPERM'),
    'nat: device nope is not there, which source NAT rule 3 of 10.8.0.0/24 waits for',
    'route 10.0.0.0/8: interface tap0 does not exist',
    'address 192.0.2.1 exists and is not ours',
    'bgpd: % Malformed',
    '4 more entries wait',
  ]) {
    const remedy = remedyForTrouble({ source: 'waiting', what })
    t.ok(remedy !== general && !FALLBACK.test(remedy), what)
  }
  t.match(remedyForTrouble({ what: 'odd' }), FALLBACK, 'an agent before this one does not say where it comes from')
})

/** What the remedy of a facility must name, and of no other. */
const OF_FACILITY: Readonly<Record<string, RegExp>> = {
  nft: /CONFIG_NF_TABLES_INET/,
  netlink: /^run stratumd as root, or with CAP_NET_ADMIN$/,
  bonding: /modprobe bonding/,
  classifier: /CONFIG_NETFILTER_BPF_LINK/,
  port: /CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF/,
  balancer: /the classifier; until then nft balances/,
  shaping: /CONFIG_NET_SCH_HTB/,
  responder: /DNS and DHCP/,
  bgp: /^apt-get install frr$/,
}

t.test('each facility has its own remedy where the reason says nothing', async (t) => {
  t.same([...FACILITIES].sort(), Object.keys(OF_FACILITY).sort())
  for (const name of FACILITIES) {
    const fits = Object.keys(OF_FACILITY).filter((other) => OF_FACILITY[other]?.test(remedyFor(name, 'odd') ?? ''))
    t.same(fits, [name])
  }
})

/** Reasons as the agent words them, and what helps. */
const OF_REASON: readonly [reason: string, remedy: RegExp][] = [
  ['switched off by STRATUM_CLASSIFIER=off', /take STRATUM_CLASSIFIER out/],
  ['switched off by STRATUM_BALANCER=off', /take STRATUM_BALANCER out/],
  ['libnftables.so.1: cannot open shared object file', /libnftables1/],
  ['libbpf.so.1: cannot open shared object file', /libbpf1/],
  ['no bpf filesystem at /sys/fs/bpf', /mount -t bpf/],
  ["another zebra (pid 7) runs beside this node's own", /disable --now frr/],
  ['user frr may not pass /run/x', /chmod o\+x/],
  ['/usr/lib/frr/bgpd does not run: exit code 127', /--reinstall frr/],
  ['/usr/lib/frr/bfdd knows no -N', /Debian's own release/],
  ['user frr is missing', /^apt-get install frr$/],
  ['there is no account stratum-responder', /systemd-sysusers/],
  ['setpriv is missing', /util-linux/],
  ['the responder ended by itself', /dmesg/],
  ['the responder cannot bind: EACCES', /CAP_NET_BIND_SERVICE/],
  ['load the programs: EPERM', /CAP_BPF and CAP_PERFMON/],
]

t.test('a reason that says what is missing has the remedy for just that', async (t) => {
  for (const [reason, remedy] of OF_REASON) t.match(remedyFor('port', reason), remedy, reason)
})

/** Trouble by where it comes from, and what helps. */
const OF_TROUBLE: readonly [trouble: Parameters<typeof remedyForTrouble>[0], remedy: RegExp][] = [
  [{ source: 'waiting', what: "another zebra (pid 7) runs beside this node's own" }, /disable --now frr/],
  [{ source: 'waiting', what: carriesNothing('tap0', 'EPERM') }, /CONFIG_NET_SCH_INGRESS/],
  [{ source: 'waiting', what: 'route 10.0.0.0/8: interface tap0 does not exist' }, /make that interface/],
  [{ source: 'waiting', what: 'address 192.0.2.1 exists and is not ours' }, /ip addr, ip link, ip route/],
  [{ source: 'waiting', what: 'bgpd: % Malformed' }, /stratumctl bgp neighbors/],
  [{ source: 'setting', what: 'STRATUM_X is ignored' }, /systemctl edit stratumd/],
  [{ source: 'waiting', what: '4 more entries wait' }, /the lines before this one/],
  [{ source: 'kernel', what: 'somebody takes it away again and again' }, /events tail .*agent\.drift/],
  [
    { source: 'waiting', what: 'device nope is not there, which source NAT rule 3 waits for' },
    /stratumctl snat delete/,
  ],
  [{ source: 'waiting', what: 'device nope is not there, which is the uplink' }, /config set uplink/],
  [{ source: 'setting', what: 'the certificate cannot be read' }, /stratumctl config list/],
  [{ source: 'kernel', what: 'odd' }, /stratumctl drift check/],
  [{ source: 'store', what: 'odd' }, /df -h/],
  [{ source: 'waiting', what: 'odd' }, /delete what waits for it/],
  [{ source: 'setting', what: 'odd' }, /stratumctl config list/],
  [{ source: 'caution', what: 'odd', remedy: 'do this' }, /^do this$/],
]

t.test('trouble has the remedy that fits it', async (t) => {
  for (const [trouble, remedy] of OF_TROUBLE) t.match(remedyForTrouble(trouble), remedy, trouble.what)
})
