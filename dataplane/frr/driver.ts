/**
 * The driver of the BGP speaker. The daemons run while there is something to say, and outlive the agent: the next one finds them by
 * their sockets and compares what they hold, so that sessions go on. One that has crashed is started anew at once; what bgpd has
 * lost with that is brought by whoever opened the driver.
 */
import { compare, type Entry, type Passage } from '../entry.ts'
import { type ApplyMode, type Driver, GroundLost, KernelRefusal, type Pending, UncertainOutcome } from '../plane.ts'
import { atOnce, stepwise } from '../slices.ts'
import { readNeighbors, saidOf } from './answers.ts'
import type { Bgp } from './bgp.ts'
import { type BgpPassage, commandsFor } from './commands.ts'
import { BGP_KINDS, type BgpEntry, isBgp } from './entries.ts'
import { openFollower } from './follow.ts'
import { observed } from './observed.ts'
import { openReadings } from './readings.ts'
import { DAEMONS, type Daemon, endDaemon, type FrrPlaces, findDaemon, pidOf, startDaemon, whyNoFrr } from './session.ts'
import { openTurns } from './turns.ts'
import { openUpkeep } from './upkeep.ts'
import type { Outcome, Vty } from './vty.ts'

/** A daemon that ends this soon after its start, again and again, is started anew later and later. */
const YOUNG_MS = 10_000
const MAX_PAUSE_MS = 60_000
/** One that could not be started is tried again no sooner. */
const MIN_RETRY_MS = 1000
/** With nothing to say they end after a while, and give back their memory. */
const REST_MS = 10_000
/** What bgpd refused by itself is tried again after so long. */
const AGAIN_MS = 30_000

export interface FrrDriver extends Driver {
  readonly bgp: Bgp
  /** How often a daemon was started anew after it had ended by itself. */
  restarts(): number
}

export interface FrrOptions extends FrrPlaces {
  /** Told of what goes wrong outside any change. */
  onProblem(error: unknown): void
  /** What bgpd held is gone: it must be brought to what shall be. */
  onLoss(): void
}

interface Waiting extends Pending {
  entry: BgpEntry
  since: number
}

/** Rejects with a sentence for the operator where FRR cannot be used. */
export async function openFrr(options: FrrOptions): Promise<FrrDriver> {
  const { onProblem, onLoss } = options
  const why = await whyNoFrr(options)
  if (why !== undefined) throw new Error(why)
  const connected = new Map<Daemon, Vty>()
  const timers = new Map<Daemon, NodeJS.Timeout>()
  const started = new Map<Daemon, { at: number; early: number }>()
  let waiting: Waiting[] = []
  let [lost, closing, restarts] = [false, false, 0]
  let rest: NodeJS.Timeout | undefined
  const inTurn = openTurns()
  const upkeep = openUpkeep({ places: options, inTurn, daemon: (name) => connected.get(name) })
  const follower = openFollower(`${options.runDir}/bgpd.vty`, onProblem)

  function lose(name: Daemon): void {
    connected.delete(name)
    if (name === 'bgpd') follower.end()
    if (closing) return
    restarts++
    const pause = pauseOf(name)
    onProblem(new Error(`${name} ended by itself; it is started anew ${pause ? `in ${pause} ms` : 'at once'}`))
    if (name === 'bgpd') lost = true
    startLater(name, pause)
  }

  function pauseOf(name: Daemon): number {
    const { at, early } = started.get(name) ?? { at: 0, early: 0 }
    const again = performance.now() - at < YOUNG_MS ? early + 1 : 0
    started.set(name, { at, early: again })
    return again < 2 ? 0 : Math.min(MAX_PAUSE_MS, 250 * 2 ** again)
  }

  function startLater(name: Daemon, pause: number): void {
    const start = async () => {
      if (!closing) await running(name)
    }
    const work = () => {
      // What bgpd held comes with the next comparison, which starts it; the others hold nothing of ours.
      if (name === 'bgpd') return onLoss()
      inTurn(start).catch((error: unknown) => {
        onProblem(error)
        if (!closing) startLater(name, Math.max(MIN_RETRY_MS, pauseOf(name)))
      })
    }
    clearTimeout(timers.get(name))
    timers.set(name, setTimeout(work, pause))
  }

  /** Connects to one that runs. */
  async function found(name: Daemon): Promise<Vty | undefined> {
    const vty = await findDaemon(options, name, () => lose(name))
    if (vty) await hold(name, vty)
    return vty
  }

  async function hold(name: Daemon, vty: Vty): Promise<void> {
    connected.set(name, vty)
    // Before it is told anything, so that no move of a session is missed.
    if (name === 'bgpd') await follower.begin(vty)
  }

  async function running(name: Daemon): Promise<Vty> {
    const there = connected.get(name) ?? (await found(name))
    if (there) return there
    started.set(name, { at: performance.now(), early: started.get(name)?.early ?? 0 })
    const vty = await startDaemon(options, name, () => lose(name)).catch((error: unknown) => {
      throw new KernelRefusal((error as Error).message)
    })
    await hold(name, vty)
    upkeep.started()
    return vty
  }

  /** zebra first, whom the others ask. */
  async function allRunning(): Promise<Vty> {
    await running('zebra')
    await running('bfdd')
    return running('bgpd')
  }

  async function endAll(): Promise<void> {
    follower.end()
    for (const name of [...DAEMONS].reverse()) {
      clearTimeout(timers.get(name))
      connected.get(name)?.close()
      connected.delete(name)
      await endDaemon(options, name)
    }
  }

  /** The daemons end when bgpd holds nothing by then. */
  function restLater(): void {
    clearTimeout(rest)
    const end = async () => {
      const vty = connected.get('bgpd')
      if (closing || (vty && (await held(vty)).length > 0)) return
      await endAll()
    }
    const work = () => {
      rest = undefined
      inTurn(end).catch(onProblem)
    }
    rest = setTimeout(work, REST_MS).unref()
  }

  /** What is asked of one that ends meanwhile: with it everything that it held is gone. */
  async function ask(vty: Vty, commands: readonly string[]): Promise<Outcome[]> {
    try {
      return await vty.run(commands)
    } catch (error) {
      throw new GroundLost('bgpd ended before it answered: look at journalctl -t bgpd', { cause: error })
    }
  }

  async function held(vty: Vty): Promise<BgpEntry[]> {
    const [config, neighbors] = await ask(vty, ['show running-config', 'show bgp vrf all neighbors json'])
    if (!config?.ok || !neighbors?.ok) throw new UncertainOutcome('bgpd does not tell its configuration')
    return stepwise(observed(config.text, await readNeighbors(neighbors.text)))
  }

  async function observe(desired: readonly Entry[] = []): Promise<Entry[]> {
    lost = false
    for (const name of DAEMONS) if (!connected.has(name)) await found(name)
    const vty = connected.get('bgpd')
    // Whoever crashed while nobody looked.
    if (vty) await allRunning().catch(onProblem)
    const now = performance.now()
    const wanted = new Map(desired.filter(isBgp).map((entry) => [entry.key, entry]))
    waiting = waiting.filter(({ key, since, entry }) => now - since < AGAIN_MS && same(wanted.get(key), entry))
    if (vty === undefined) return []
    try {
      const entries = await held(vty)
      if (entries.length === 0 && rest === undefined) restLater()
      const found = new Set(entries.map(({ key }) => key))
      return [...entries, ...waiting.flatMap(({ key, entry }) => (found.has(key) ? [] : [entry]))]
    } catch (error) {
      // It has just ended, so it holds nothing.
      onProblem(error)
      return []
    }
  }

  async function configure(vty: Vty, diff: readonly BgpPassage[]): Promise<string | undefined> {
    const commands = commandsFor(diff)
    if (commands.length === 0) return undefined
    const outcomes = await ask(vty, ['configure terminal', ...commands, 'end'])
    const bad = outcomes.findIndex(({ ok }) => !ok)
    return bad < 0 ? undefined : saidOf(outcomes[bad], ['configure terminal', ...commands][bad])
  }

  /** Brings what a refused change has left half done to what was there before it. */
  async function takeBack(vty: Vty, diff: readonly BgpPassage[]): Promise<void> {
    const keys = new Set(diff.map(({ before, after }) => (after ?? before)?.key))
    const now = (await held(vty)).filter(({ key }) => keys.has(key))
    const back = atOnce(
      compare(
        now,
        diff.flatMap(({ before }) => before ?? []),
      ),
    ) as BgpPassage[]
    const refused = await configure(vty, back)
    if (refused !== undefined) throw new UncertainOutcome(`bgpd refused to take a change back: ${refused}`)
  }

  async function change(vty: Vty, diff: readonly BgpPassage[]): Promise<void> {
    const refused = await configure(vty, diff)
    if (refused === undefined) return
    await takeBack(vty, diff)
    throw new KernelRefusal(`bgpd: ${refused}`)
  }

  /** What is refused by itself waits, and keeps nothing else from being put in force. */
  async function restore(vty: Vty, diff: readonly BgpPassage[]): Promise<void> {
    if ((await configure(vty, diff)) === undefined) return
    const keys = new Set(diff.map(({ before, after }) => (after ?? before)?.key))
    const wanted = diff.flatMap(({ after }) => after ?? [])
    const now = (await held(vty)).filter(({ key }) => keys.has(key))
    for (const passage of atOnce(compare(now, wanted)) as BgpPassage[]) {
      const reason = await configure(vty, [passage])
      if (reason === undefined) continue
      const key = (passage.after ?? passage.before)?.key
      await takeBack(
        vty,
        diff.filter(({ before, after }) => (after ?? before)?.key === key),
      )
      const entry = passage.after
      if (entry) waiting.push({ key: entry.key, reason: `bgpd: ${reason}`, entry, since: performance.now() })
      else onProblem(new Error(`bgpd: ${reason}`))
    }
  }

  async function apply(diff: readonly Passage[], mode: ApplyMode = 'change'): Promise<void> {
    if (mode === 'change' && lost) throw new GroundLost('bgpd has just been started anew')
    const passages = diff as readonly BgpPassage[]
    if (!connected.has('bgpd') && passages.every(({ after }) => after === undefined)) return
    const vty = await allRunning()
    if (mode === 'change') await change(vty, passages)
    else await restore(vty, passages)
    if (passages.some(({ after }) => after === undefined)) restLater()
  }

  return {
    name: 'bgp',
    kinds: BGP_KINDS,
    observe: (desired) => inTurn(() => observe(desired)),
    apply: (diff, mode) => inTurn(() => apply(diff, mode)),
    pending: () => [...waiting.map(({ key, reason }) => ({ key, reason })), ...upkeep.troubles()],
    bgp: openReadings({
      places: options,
      daemon: (name) => connected.get(name),
      pids: () =>
        Object.fromEntries(
          DAEMONS.flatMap((name) => {
            const pid = pidOf(options, name)
            return pid === undefined ? [] : [[name, pid]]
          }),
        ),
      follower,
    }),
    restarts: () => restarts,
    async close() {
      closing = true
      clearTimeout(rest)
      upkeep.close()
      for (const timer of timers.values()) clearTimeout(timer)
      follower.end()
      // They go on.
      for (const vty of connected.values()) vty.close()
    },
  }
}

const same = (a: BgpEntry | undefined, b: BgpEntry): boolean =>
  a !== undefined && atOnce(compare([a], [b])).length === 0
