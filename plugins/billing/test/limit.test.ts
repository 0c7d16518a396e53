/** The limit of a tenant under load: what passes is counted by the guests' own interfaces. */
import { rmSync } from 'node:fs'
import t, { type Test } from 'tap'
import { TENANT_BURST_NS } from '../../../dataplane/numbers.ts'
import { requireRoot } from '../../../test/netns.ts'
import { type Guest, workloadNode } from '../../../test/workload.ts'
import {
  act,
  addLan,
  addNetwork,
  addTenant,
  dump,
  flood,
  type Measured,
  measured,
  NOTHING,
  pins,
  place,
  type Seen,
  STACK,
  twoTenants,
} from './node.ts'

requireRoot(t)

const RATE = 8_000_000
const MS = 1500
const BURST_SECONDS = TENANT_BURST_NS / 1e9

/**
 * What `to` get within a while is at most the limit and a burst, and not much less, where that much was offered. A policer
 * lets TCP have somewhat less than UDP.
 */
async function limited(t: Test, name: string, to: readonly Measured[], from: readonly Measured[] = []): Promise<void> {
  const seen = await measured(MS, ...to, ...from)
  const sum = (part: readonly Seen[], way: 'rx' | 'tx') => part.reduce((all, one) => all + one[way], 0)
  const [passed, offered] = [sum(seen.slice(0, to.length), 'rx'), sum(seen.slice(to.length), 'tx')]
  const least = from.length > 0 ? Math.min(RATE, offered) * 0.7 : RATE * 0.4
  const most = Math.max(...seen.map(({ seconds }) => 1.03 + BURST_SECONDS / seconds)) * RATE
  t.ok(passed > least && passed < most, `${name}: ${(passed / RATE).toFixed(3)} of the limit`)
}

/** Sends and takes TCP for good. */
const SINK = `require('node:net').createServer((c) => c.resume()).listen(9000, () => console.log('listening'))`
const SOURCE = `
const socket = require('node:net').connect(9000, process.argv[1])
const data = Buffer.alloc(65536)
const send = () => { while (socket.write(data)); }
socket.on('connect', send).on('drain', send)
`

t.test('D107 a limit holds for all networks of a tenant together, whatever becomes of the agent', async (t) => {
  const node = await workloadNode(t)
  const guests = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => node.guest(name))
  const [a, b, c, d, e, f] = guests as [Guest, Guest, Guest, Guest, Guest, Guest]
  await node.guarded(...guests)
  const { acme } = await twoTenants(node, [a, b], [e, f])
  for (const [from, to] of [
    [a, '10.0.0.2'],
    [e, '10.1.0.2'],
    [a, '10.0.0.254'],
  ] as const)
    t.ok(from.reaches(to))

  await act(node, acme, 'limit', { rate_bps: RATE })
  const second = await addNetwork(node, { name: 'second', cidr: '10.2.0.0/24', tenant_id: acme })
  await place(node, second, c, '10.2.0.1')
  await place(node, second, d, '10.2.0.2')
  t.ok(c.reaches('10.2.0.2'))

  const floods = [flood(a, 2 * RATE, '10.0.0.2'), flood(c, 2 * RATE, '10.2.0.2'), flood(e, 2 * RATE, '10.1.0.2')]
  await measured(500, a)
  await limited(t, 'two networks, one of them made after the limit', [b, d], [a, c])
  const [fromE, atF] = await measured(500, e, f)
  if (!fromE || !atF) throw new Error('nothing was measured')
  t.ok(atF.rx > 0.9 * fromE.tx, `another tenant gets everything: ${Math.round(atF.rx)} of ${Math.round(fromE.tx)}`)

  await node.agent.kill('SIGKILL')
  await limited(t, 'while no agent runs', [b, d], [a, c])
  await node.agent.restart()
  t.match(await node.ok('POST', '/control/v1/drift', { dry_run: true }), { status: 'clean' })

  await node.agent.kill('SIGKILL')
  const rows = dump(node)
  rmSync(pins(node), { recursive: true })
  await node.agent.restart()
  t.same(dump(node), rows, 'a start without anything in the kernel makes it anew')
  await node.inNetwork(b, d)
  await measured(500, a)
  await limited(t, 'and it holds', [b, d], [a, c])

  await act(node, acme, 'unlimit')
  const [more] = await measured(1000, b)
  t.ok((more?.rx ?? 0) > 1.2 * RATE, 'without a limit one of them alone gets more')
  t.same(dump(node), NOTHING, 'no row is left')
  for (const child of floods) child.kill('SIGKILL')
})

t.test('D107 a limit holds towards workloads, and for TCP', async (t) => {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const acme = await addTenant(node, 'acme')
  await addLan(node, acme, a, b)
  t.ok(a.reaches('10.0.0.254') && b.reaches('10.0.0.254') && a.reaches('10.0.0.2'))
  await act(node, acme, 'limit', { rate_bps: RATE })
  const down = flood(node, RATE, '10.0.0.1', '10.0.0.2')
  await measured(500, a)
  await limited(t, 'what two workloads get from the node', [a, b], [{ ns: node.ns, device: 'br-work' }])
  down.kill('SIGKILL')

  const up = flood(a, 2 * RATE, '10.0.0.254')
  await measured(500, a)
  await limited(t, 'what a workload sends to the node', [{ ns: node.ns, device: STACK }], [a])
  up.kill('SIGKILL')

  const sink = b.ns.spawn(process.execPath, ['-e', SINK])
  await new Promise((listening) => sink.stdout?.once('data', listening))
  a.ns.spawn(process.execPath, ['-e', SOURCE, '10.0.0.2'])
  await measured(1000, a)
  await limited(t, 'one TCP connection', [b])
})
