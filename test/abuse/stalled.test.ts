/** Readers that complete the handshake and stop reading TCP: bounded memory, an end of each, and no harm to the others. */
import t from 'tap'
import { startAgent } from '../agent.ts'
import { netns, requireRoot } from '../netns.ts'
import { SEED } from '../seed.ts'
import { connectionsAt, rssOf, until } from './process.ts'
import { producer } from './producer.ts'
import { dice } from './random.ts'
import { startReader } from './reader.ts'
import { stalledReaders } from './stalled.ts'

const READERS = 60
const BATCH = 600
const BATCHES = 5
/** Keeping all of it for all of them would take 120 MiB more than that. */
const MAX_GROWTH_MIB = 120

t.test('events-06 D111 stalled readers cost little, are closed with 1013, and hold up nobody', async (t) => {
  if (!requireRoot(t)) return
  t.comment(`SEED=${SEED}`)
  const ns = netns(t, 'st')
  // So that a stalled reader is one soon: what the kernel takes for it is none of the agent's memory.
  ns.run('sysctl', '-qw', 'net.ipv4.tcp_wmem=4096 16384 32768', 'net.ipv4.tcp_rmem=4096 16384 32768')
  const agent = await startAgent(t, { ns, config: { api_rate_burst: '1000' } })
  const made = producer(agent, dice(), 'x'.repeat(200))
  for (let n = 0; n < 2; n++) await made.batch(BATCH)
  const before = rssOf(agent.child.pid)

  const quick = startReader(ns, agent)
  const ids: number[] = []
  let base = 0
  const reading = (async () => {
    for await (const line of quick.lines) {
      if ('hello' in line) base = line.hello.latest
      if ('id' in line) ids.push(line.id)
      if ('closed' in line || 'gap' in line) throw new Error(`the quick reader got ${JSON.stringify(line)}`)
      if (ids.length === BATCHES * BATCH) break
    }
  })()
  await until('the quick reader reads', () => base > 0)
  const stalled = stalledReaders(ns.spawn)
  await stalled.open('wss://127.0.0.1:7072/api/v1/events', agent.token, READERS)
  t.equal(connectionsAt(ns, 7072), READERS + 1)

  // The third is more than a reader may be behind, and while the fourth is made that is found out.
  for (let n = 0; n < 4; n++) await made.batch(BATCH)
  const first = await stalled.resumeFirst()
  t.match(first, { code: 1013, reason: /since=/ })
  t.ok(first.ids.length < 2 * BATCH, `it had read ${first.ids.length} of ${4 * BATCH}`)
  await made.batch(BATCH)
  const growth = rssOf(agent.child.pid) - before
  t.ok(growth < MAX_GROWTH_MIB, `${growth.toFixed(0)} MiB more`)

  await reading
  t.same(ids, range(base + 1, base + BATCHES * BATCH), 'who reads misses nothing')
  const ms = await until('only the quick reader is left', () => connectionsAt(ns, 7072) === 1)
  t.comment(`the others were gone ${ms.toFixed(0)} ms later`)

  const seen = [...first.ids]
  const back = startReader(ns, agent, seen.at(-1) ?? base)
  for await (const line of back.lines) {
    if ('gap' in line || 'closed' in line) t.fail(JSON.stringify(line))
    if ('id' in line) seen.push(line.id)
    if (seen.at(-1) === base + BATCHES * BATCH) break
  }
  t.same(seen, ids, 'whoever was too slow comes back and has everything once')
})

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)
