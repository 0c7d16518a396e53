/**
 * Packets while rules change: none may meet a state that never was. More of it by BLAST (packets), UPDATES
 * and RULES; with UPDATE_RATE (a second) it fails when there were fewer.
 */
import '../inside.ts'
import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { bpffs } from '../../dataplane/bpf/test/support.ts'
import { threadCpuNs } from '../../dataplane/bpf/test_run.ts'
import { here } from '../inside.ts'
import { netnsNamed, requireRoot } from '../netns.ts'
import type { Blast } from './blast.ts'
import { assertHolds, churn } from './churn.ts'
import { dice } from './dice.ts'
import { openInjector } from './inject.ts'
import { lane } from './lane.ts'
import { openOurs, requireClassifier } from './ours.ts'
import { described } from './packets.ts'
import { linear } from './reference.ts'

requireRoot(t)
requireClassifier(t)

const PACKETS = Number(process.env.BLAST ?? 200_000)
const UPDATES = Number(process.env.UPDATES ?? 5000)
const RULES = Number(process.env.RULES ?? 1000)
const RATE = Number(process.env.UPDATE_RATE ?? 0)
const SEED = Number(process.env.SEED ?? 1)
/** Rules that one change concerns at most. */
const MOST = 64
/** The updater lets its event loop turn so often, ms. */
const TURN = 10

/** Class selectors by which the counters tell packets apart (RFC 2474), as the byte in the header. */
const CS1 = 0x20
const CS2 = 0x40
/** Behind the classifier: what got there is counted and ends before conntrack learns of it, so that all packets stay new. */
const TALLY = `
table inet tally {
  counter accepted { }
  counter dropped { }
  chain count {
    type filter hook prerouting priority -100; policy accept;
    ip dscp cs1 counter name accepted drop
    ip6 dscp cs1 counter name accepted drop
    ip dscp cs2 counter name dropped drop
    ip6 dscp cs2 counter name dropped drop
  }
}
`

const mine = lane(netnsNamed(t, here ?? ''))
const ours = await openOurs(t, mine, bpffs(t))

t.test('no packet is judged wrong while other rules change', async (t) => {
  const changes = churn(dice(SEED), RULES, SEED)
  const { mustAccept, mustDrop } = changes
  assertHolds(changes)
  await ours.hold(changes.rules, false)
  mine.nft(TALLY)
  const blast = start({
    packets: [...mustAccept.map((one) => ({ ...one, tos: CS1 })), ...mustDrop.map((one) => ({ ...one, tos: CS2 }))],
    path: mine.path,
    devices: [...mine.index],
  })
  await blast.sends(1)
  const [since, cpuSince, before] = [performance.now(), threadCpuNs(), blast.sent()]
  let [updates, applied, turn] = [0, 0, since]
  while (blast.runs() && (blast.sent() < PACKETS || updates < UPDATES)) {
    const diff = changes.next(MOST)
    await ours.change(diff)
    updates += diff.length
    applied++
    if (performance.now() - turn < TURN) continue
    await new Promise(setImmediate)
    turn = performance.now()
  }
  const seconds = (performance.now() - since) / 1000
  const cpuSeconds = (threadCpuNs() - cpuSince) / 1e9
  const meanwhile = blast.sent() - before
  const sent = await blast.end()
  const share = sent / (mustAccept.length + mustDrop.length)
  t.comment(
    `${meanwhile} packets and ${updates} updates in ${applied} changes in ${seconds.toFixed(1)} s: ` +
      `${Math.round(updates / seconds)} updates/s, ${Math.round(applied / seconds)} changes/s; ` +
      `${Math.round(updates / cpuSeconds)} updates for a second of CPU`,
  )
  t.ok(meanwhile >= PACKETS / 2, 'packets were sent while rules changed')
  t.equal(counter('accepted'), share * mustAccept.length, 'every packet that must be accepted was')
  t.equal(counter('dropped'), 0, 'no packet that must be dropped got through')
  if (RATE > 0) t.ok(updates / seconds >= RATE, `${RATE} updates a second`)
  assertHolds(changes)
  t.same(ours.problems, [], 'nothing went wrong meanwhile')

  mine.nft('delete table inet tally')
  const injector = await openInjector()
  t.teardown(() => injector.close())
  injector.watch(mine)
  const [list, decide] = [[...mustAccept, ...mustDrop], linear(changes.present())]
  await injector.load(list)
  const got = injector.sendOnce(mine)
  const wrong = list.filter((packet, n) => got[n] !== (decide(packet)?.accept ?? false))
  t.same(wrong.slice(0, 3).map(described), [], 'and afterwards the rules that are left judge')
})

/** Packets that another process sends until it is ended; pinned to a processor, as the updater's changes go on elsewhere. */
function start(blast: Blast) {
  const script = join(import.meta.dirname, 'blast.js')
  const args = ['-c', String(cpus().length - 1), process.execPath, script]
  const child: ChildProcess = mine.ns.spawn('taskset', args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const { stdin, stdout } = child
  if (!stdin || !stdout) throw new TypeError('input and output of the sender must be piped')
  let sent = 0
  let ended = false
  const lines = createInterface({ input: stdout }).on('line', (line) => {
    sent = Number(line)
  })
  const closed = once(child, 'close').then(([code]) => {
    ended = true
    return code as number | null
  })
  stdin.write(`${JSON.stringify(blast)}\n`)
  return {
    sent: () => sent,
    runs: () => !ended,
    async sends(least: number) {
      while (sent < least && !ended) await Promise.race([once(lines, 'line'), closed])
    },
    /** Resolves to how many it was in the end. */
    async end() {
      stdin.end()
      const code = await closed
      if (code !== 0) throw new Error(`the sender ended with ${code}`)
      return sent
    },
  }
}

function counter(name: string): number {
  const text = execFileSync('nft', ['-j', 'list', 'counter', 'inet', 'tally', name], { encoding: 'utf8' })
  const { nftables } = JSON.parse(text) as { nftables: { counter?: { packets: number } }[] }
  return nftables.find((one) => one.counter)?.counter?.packets ?? Number.NaN
}
