/**
 * The event stream, read by a process that is killed at any moment and comes back with `since`, while the agent itself is
 * killed now and then: no gap, no repeat, the order of the commits. EVENTS sets how many (100 000 in the long run).
 */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type RunningAgent, startAgent } from '../agent.ts'
import { type Netns, netns, requireRoot } from '../netns.ts'
import { SEED } from '../seed.ts'
import { type Expected, type Producer, producer } from './producer.ts'
import { dice } from './random.ts'
import { type Line, startReader } from './reader.ts'

const EVENTS = Number(process.env.EVENTS ?? 5000)
const READER_KILLS = EVENTS > 5000 ? 100 : 12
const AGENT_KILLS = EVENTS > 5000 ? 8 : 1
/** The agent is killed while a start is quick, which it is not once tens of thousands of rules are to be read back. */
const LAST_KILL = Math.min(EVENTS, 20_000)
/** The reader must keep up with the ring, which keeps twice as many. */
const LEAD = 5000

interface Scene {
  ns: Netns
  agent: RunningAgent
}

/** Reads on from `since` until `enough` says so or the connection ends, and kills the reader then. The code of the end. */
async function readUntil(
  { ns, agent }: Scene,
  since: number | undefined,
  enough: (line: Line) => boolean,
): Promise<number | undefined> {
  const reader = startReader(ns, agent, since)
  let code: number | undefined
  for await (const line of reader.lines) {
    if ('closed' in line) code = line.closed
    if (code !== undefined || enough(line)) break
  }
  await reader.kill()
  return code
}

/** Id of the last event so far. */
async function latest(scene: Scene): Promise<number> {
  let found = Number.NaN
  await readUntil(scene, undefined, (line) => {
    if ('hello' in line) found = line.hello.latest
    return 'hello' in line
  })
  return found
}

/** Ids have no hole and no repeat; what the firewall tells is what was committed. */
function check(t: Pick<Test, 'equal'>, seen: readonly Line[], base: number, committed: readonly Expected[]) {
  const events = seen.flatMap((line) => ('id' in line ? [line] : []))
  const wrong = events.findIndex(({ id }, at) => id !== base + 1 + at)
  t.equal(wrong, -1, wrong < 0 ? 'ids grow by one' : `event ${wrong} is ${JSON.stringify(events[wrong])}`)
  const told = events.filter(({ type }) => type.startsWith('rule.')).map(({ type, subject }) => `${type} ${subject}`)
  const expected = committed.map(({ type, subject }) => `${type} ${subject}`)
  const differs = expected.findIndex((text, at) => told[at] !== text)
  t.equal(differs, -1, differs < 0 ? 'in the order of the commits' : `${told[differs]} for ${expected[differs]}`)
  t.equal(told.length, expected.length, `${expected.length} changes were committed`)
}

t.test(
  'events-04 events-06 persist-02 neither a killed reader nor a killed agent loses or repeats an event',
  { timeout: 60_000 + EVENTS * 8 },
  async (t) => {
    if (!requireRoot(t)) return
    t.comment(`EVENTS=${EVENTS} SEED=${SEED}`)
    const ns = netns(t, 'ev')
    const agent = await startAgent(t, { ns, config: { max_rules: '131072' } })
    const base = await latest({ ns, agent })
    const made = producer(agent, dice())
    const seen: Line[] = []
    const run = { over: false, readers: 0 }
    let failed: unknown
    const producing = produce(made, () => seen.length, run).catch((error: unknown) => {
      failed = error
      run.over = true
    })

    const chance = dice(SEED + 1)
    let told = 0
    let tooSlow = 0
    while (!run.over || (failed === undefined && told < made.committed.length)) {
      run.readers++
      let left = run.over ? Number.POSITIVE_INFINITY : chance.between(1, (2 * EVENTS) / READER_KILLS)
      const last = seen.at(-1)
      const code = await readUntil({ ns, agent }, last !== undefined && 'id' in last ? last.id : base, (line) => {
        if ('gap' in line) t.fail(`a gap ${JSON.stringify(line.gap)} after ${JSON.stringify(last)}`)
        if (!('id' in line)) return false
        seen.push(line)
        if (line.type.startsWith('rule.')) told++
        return --left <= 0 || (run.over && told >= made.committed.length)
      })
      if (code === 1013) tooSlow++
      // Without an agent there is nothing to read.
      if (seen.at(-1) === last) await wait(100)
    }
    await producing
    if (failed !== undefined) throw failed
    check(t, seen, base, made.committed)
    t.ok(made.committed.length >= EVENTS)
    t.comment(
      `${seen.length} events, ${run.readers} readers, ${tooSlow} of them too slow, ${AGENT_KILLS} kills of the agent`,
    )
  },
)

async function produce(made: Producer, seen: () => number, run: { over: boolean }): Promise<void> {
  const most = Math.min(5000, EVENTS / 10)
  for (let kills = 0; made.committed.length < EVENTS; ) {
    while (made.committed.length - seen() > LEAD) await wait(5)
    if (kills < AGENT_KILLS && made.committed.length >= ((kills + 1) * LAST_KILL) / (AGENT_KILLS + 1)) {
      kills++
      await made.changeAndKill(Math.ceil(most / 2))
    } else await made.change(Math.ceil(most))
  }
  run.over = true
}

t.test(
  'events-06 a reader that falls behind the ring is told of exactly one gap, and is right afterwards',
  async (t) => {
    if (!requireRoot(t)) return
    const ns = netns(t, 'ring')
    // So that what the kernel keeps on the way is less than what the ring keeps.
    ns.run('sysctl', '-qw', 'net.ipv4.tcp_wmem=4096 16384 32768', 'net.ipv4.tcp_rmem=4096 16384 32768')
    const agent = await startAgent(t, { ns, config: { max_events: '1000' } })
    const base = await latest({ ns, agent })
    const made = producer(agent, dice())
    await made.change(50)

    const seen: Line[] = []
    const reader = startReader(ns, agent, base)
    let stopped = false
    for await (const line of reader.lines) {
      seen.push(line)
      if ('closed' in line) break
      if (stopped || !('id' in line) || line.id < base + made.committed.length) continue
      stopped = true
      reader.child.kill('SIGSTOP')
      while (made.committed.length < 4000) await made.change(800)
      reader.child.kill('SIGCONT')
    }
    const first = seen.flatMap((line) => ('id' in line ? [line.id] : []))
    const last = first.at(-1) ?? 0
    t.match(seen.at(-1), { closed: /^(1013|1006)$/ }, 'it was too slow')
    t.ok(last < base + 3000, `it had read up to ${last}`)
    t.notOk(seen.some((line) => 'gap' in line))

    const rest: Line[] = []
    await made.change(100)
    const end = () => base + made.committed.length
    await readUntil({ ns, agent }, last, (line) => {
      rest.push(line)
      return 'id' in line && line.id === end()
    })
    const gaps = rest.filter((line) => 'gap' in line)
    t.same(gaps, [{ gap: { from: last + 1, to: end() - 1000 } }])
    t.match(rest[0], { hello: { oldest: end() - 999, latest: end() } })
    t.same(rest[1], gaps[0], 'it comes before any event')
    check(t, rest, end() - 1000, made.committed.slice(-1000))
  },
)
