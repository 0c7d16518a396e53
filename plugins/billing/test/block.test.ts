/** A blocked tenant as its guests, its neighbours and the node see it. */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { act, dump, NOTHING, twoTenants } from './node.ts'

requireRoot(t)

/** Who asks whom by ICMP echo, and from which address. */
type Way = readonly [from: Pick<Guest, 'ns'>, to: string, source?: string]
/** How long one asks, in ms: once, or again and again until there is an answer. */
const NOW = 0
const SOON = 20_000

/** Whether each is answered; all ask at the same time. */
function answers(ways: readonly Way[], patience: number): Promise<boolean[]> {
  const until = performance.now() + patience
  const asked = ways.map(async ([{ ns }, to, source]) => {
    const from = source === undefined ? [] : ['-I', source]
    for (;;) {
      // A ping that is told of a neighbour that did not answer gives up, whatever its deadline.
      const [code] = await once(ns.spawn('ping', ['-n', '-q', '-c', '1', '-W', '1', ...from, to]), 'exit')
      if (code === 0 || performance.now() > until) return code === 0
    }
  })
  return Promise.all(asked)
}

/** Each end says what it gets, and sends what it is told. */
const END = `
const [, address] = process.argv
const { createServer, connect } = require('node:net')
const talk = (socket) => {
  socket.on('data', (data) => console.log('got ' + data)).on('error', () => console.log('broken'))
  process.on('SIGUSR2', () => socket.write('word'))
  console.log('connected')
}
if (address) connect(9000, address, function () { talk(this) })
else createServer(talk).listen(9000, () => console.log('listening'))
`

/** One end of a connection. `hears` resolves to its next line, or undefined when there is none within `ms`. */
function end({ ns }: Guest, ...address: string[]) {
  const child = ns.spawn(process.execPath, ['-e', END, ...address])
  if (child.stdout === null) throw new TypeError('no stdout')
  const lines: string[] = []
  const reader = createInterface({ input: child.stdout }).on('line', (line) => void lines.push(line))
  return {
    says: () => void child.kill('SIGUSR2'),
    async hears(ms: number): Promise<string | undefined> {
      const signal = AbortSignal.timeout(ms)
      while (lines.length === 0) {
        try {
          await once(reader, 'line', { signal })
        } catch {
          return undefined
        }
      }
      return lines.shift()
    },
  }
}

async function connected(server: Guest, client: Guest, address: string) {
  const far = end(server)
  await far.hears(20_000)
  const near = end(client, address)
  if ((await near.hears(20_000)) !== 'connected' || (await far.hears(20_000)) !== 'connected') {
    throw new Error('no connection')
  }
  return { near, far }
}

const metric = async (node: WorkloadNode, name: string): Promise<number> => {
  const { text } = await node.agent.call('GET', '/api/v1/metrics')
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.split(' ')[1],
  )
}

t.test('D103 D107 blocked traffic stops at once, both ways, and goes on after resume', async (t) => {
  const node = await workloadNode(t)
  const guests = ['a', 'b', 'c', 'd', 'o', 'p', 'r'].map((name) => node.guest(name))
  const [a, b, c, d, o, p, r] = guests as [Guest, Guest, Guest, Guest, Guest, Guest, Guest]
  await node.guarded(...guests)
  const { acme } = await twoTenants(node, [a, b], [c, d])
  for (const [guest, ip] of [
    [o, '10.9.0.1'],
    [p, '10.9.0.2'],
  ] as const) {
    guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
  }
  await node.ok('POST', '/api/v1/routed-addresses', { cidr: '93.184.216.0/30', tenant_id: acme })
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', {
    machine: 'r',
    public_ip: '93.184.216.1',
    port: r.port,
  })
  r.setMac((nic as { mac: string }).mac)
  r.ns.run('ip', 'address', 'add', '93.184.216.1/32', 'dev', 'eth0')
  r.ns.run('ip', 'route', 'add', '169.254.0.1', 'dev', 'eth0')
  const theirOwn: readonly Way[] = [
    [a, '10.0.0.2'],
    [b, '10.0.0.1'],
    [a, '10.0.0.254'],
    [node, '10.0.0.1'],
    [r, '169.254.0.1', '93.184.216.1'],
    [node, '93.184.216.1'],
  ]
  const others: readonly Way[] = [
    [c, '10.1.0.2'],
    [d, '10.1.0.1'],
    [o, '10.9.0.2'],
    [p, '10.9.0.1'],
  ]
  const every = (ways: readonly Way[], answered: boolean) => ways.map(() => answered)
  t.same(await answers(theirOwn, SOON), every(theirOwn, true))
  const { near, far } = await connected(b, a, '10.0.0.2')
  const stranger = await connected(d, c, '10.1.0.2')
  near.says()
  t.equal(await far.hears(20_000), 'got word')

  await act(node, acme, 'suspend')
  t.same(await answers(theirOwn, SOON), every(theirOwn, true), 'a suspended tenant has its traffic')
  await act(node, acme, 'suspend', { block_traffic: true })
  near.says()
  far.says()
  const [heard, answered] = await Promise.all([near.hears(1000), far.hears(1000)])
  t.same([heard, answered], [undefined, undefined], 'nothing of the connection arrives at either end')
  await act(node, acme, 'resume')
  t.same(await Promise.all([near.hears(30_000), far.hears(30_000)]), ['got word', 'got word'], 'the connection goes on')

  await act(node, acme, 'suspend', { block_traffic: true })
  t.same(await answers(theirOwn, NOW), every(theirOwn, false), 'nobody answers, nor is anybody asked')
  t.same(await answers(others, SOON), every(others, true), 'another tenant and open ports notice nothing')
  stranger.near.says()
  t.equal(await stranger.far.hears(20_000), 'got word')
  t.ok((await metric(node, 'stratum_billing_dropped_frames_total{reason="tenant_blocked"}')) > 0, 'drops are counted')

  await node.agent.kill('SIGKILL')
  t.same(await answers(theirOwn, NOW), every(theirOwn, false), 'blocked while no agent runs')
  await node.agent.restart()
  t.same(await answers(theirOwn, NOW), every(theirOwn, false), 'and by the next one')
  t.match(await node.ok('POST', '/control/v1/drift', { dry_run: true }), { status: 'clean' })

  await act(node, acme, 'resume')
  t.same(await answers(theirOwn, SOON), every(theirOwn, true))
  t.same(dump(node), NOTHING, 'no row is left')
})
