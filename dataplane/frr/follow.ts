/**
 * Follows the sessions of bgpd: every move of each is told, in order. What bgpd logs from now on is joined to what it answers by marks that it
 * is asked to log around its answer. Where that cannot be had nothing is followed, and whoever wants to know asks.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { readNeighbors } from './answers.ts'
import type { SessionSeen } from './bgp.ts'
import { type Line, type LiveLog, openLiveLog } from './live-log.ts'
import { type Machines, openMachines, readMove } from './moves.ts'
import type { Vty } from './vty.ts'

const COMMANDS = ['debug bgp neighbor-events']
const SHOW = 'show bgp vrf all neighbors json'
const MARK = 'stratum mark'
/** bgpd may be listing a million routes to somebody else; before it is told anything nobody waits longer for the log than for it. */
const PATIENCE_MS = 60_000
const OPEN_MS = 20_000
/** So often bgpd is asked for a mark: it tells what was lost, and that the log still comes. */
const BEAT_MS = 2000
const ROUND_MS = 250
/** After a line that was lost, and after one that bgpd does not give. */
const AGAIN_MS = 1000
const REFUSED_MS = 30_000

/** `whole`: these are all sessions that there are; otherwise each is one move. */
export type Hear = (seen: readonly SessionSeen[], whole: boolean) => void

export interface Follower {
  /** As far as it has been heard; undefined while nothing is followed, or for a neighbor of which nothing is known. */
  state(address: string): SessionSeen['state'] | undefined
  /** Whether every move is heard. */
  follows(): boolean
  /** Returns how to stop. */
  follow(hear: Hear): () => void
  /** From now on `vty` is the connection to bgpd. Resolves when what it is told next will be heard, or it is known not to be. */
  begin(vty: Vty): Promise<void>
  /** bgpd has ended. */
  end(): void
}

/** `path`: of bgpd's vty socket. */
export function openFollower(path: string, onProblem: (error: Error) => void): Follower {
  const listeners = new Set<Hear>()
  let current: { line: FollowedLine; machines: Machines } | undefined
  let again: NodeJS.Timeout | undefined
  let refused = false

  const tell: Hear = (seen, whole) => {
    for (const hear of seen.length > 0 || whole ? listeners : []) hear(seen, whole)
  }

  function end(): void {
    clearTimeout(again)
    current?.line.close()
    current = undefined
  }

  async function begin(vty: Vty): Promise<void> {
    end()
    const machines = openMachines()
    const beginAgain = (ms: number) => {
      end()
      again = setTimeout(() => void begin(vty), ms).unref()
    }
    const lost = () => current?.line === line && beginAgain(AGAIN_MS)
    const line = openFollowedLine({ path, vty, machines, tell, lost })
    current = { line, machines }
    try {
      await line.ready
      refused = false
    } catch (error) {
      if (current?.line !== line) return
      beginAgain(REFUSED_MS)
      if (!refused) onProblem(new Error(`not every move of a BGP session is told: ${(error as Error).message}`))
      refused = true
    }
  }

  return {
    begin,
    end,
    follows: () => current?.line.certain() ?? false,
    state: (address) => (current?.line.certain() ? current.machines.state(address) : undefined),
    follow(hear) {
      listeners.add(hear)
      if (current?.line.certain()) current.line.settleAgain()
      return () => void listeners.delete(hear)
    },
  }
}

interface LineParts {
  path: string
  vty: Vty
  machines: Machines
  tell: Hear
  lost(): unknown
}

interface FollowedLine {
  /** Rejects when this bgpd cannot be followed. */
  ready: Promise<void>
  certain(): boolean
  /** Tells all sessions anew. */
  settleAgain(): void
  close(): void
}

/** What is heard around an answer of bgpd. */
interface Round {
  begin: string
  end: string
  stage: 'before' | 'within' | 'after'
  /** A move between the marks: whether the answer knows of it is not certain. */
  unclear: boolean
  later: Line[]
  ended(): void
}

function openFollowedLine({ path, vty, machines, tell, lost }: LineParts): FollowedLine {
  let log: LiveLog | undefined
  let round: Round | undefined
  let [certain, closed, settling, wanted] = [false, false, false, false]
  let [marks, missed] = [0, 0]
  let [beat, beating, heardAt]: [NodeJS.Timeout | undefined, boolean, number] = [undefined, false, performance.now()]

  function close(): void {
    closed = true
    certain = false
    clearInterval(beat)
    log?.close()
    round?.ended()
  }

  function onLines(lines: readonly Line[]): void {
    const seen: SessionSeen[] = []
    heardAt = performance.now()
    for (const line of lines) {
      if (line.lost !== missed) {
        missed = line.lost
        // It may have been a mark.
        round?.ended()
        uncertain()
      }
      if (round && inRound(round, line)) continue
      if (certain) seen.push(...moved(line))
    }
    tell(seen, false)
  }

  /** Whether the line is kept until the round is over. */
  function inRound(it: Round, line: Line): boolean {
    if (line.text === it.begin) it.stage = 'within'
    else if (line.text === it.end) {
      it.stage = 'after'
      it.ended()
    } else if (it.stage === 'within' && readMove(line.text)) it.unclear = true
    else if (it.stage === 'after') return it.later.push(line) > 0
    return false
  }

  function* moved({ text, at }: Line): Generator<SessionSeen> {
    const move = readMove(text)
    if (move === undefined) return
    const was = machines.state(move.address) ?? 'Idle'
    const state = machines.move(move)
    if (state === undefined) uncertain()
    else if (state !== was) yield { address: move.address, state, at }
  }

  /** From here on nothing is told until bgpd has said how all of them are. */
  function uncertain(): void {
    certain = false
    void settle().catch(lost)
  }

  async function settle(): Promise<void> {
    wanted = true
    if (settling || closed) return
    settling = true
    try {
      while (wanted && !closed) {
        wanted = false
        await oneRound()
        // Whatever makes bgpd say more than can be heard is not helped by asking at once.
        if (wanted) await delay(ROUND_MS, undefined, { ref: false })
      }
    } finally {
      settling = false
    }
  }

  async function oneRound(): Promise<void> {
    const name = `${MARK} ${process.pid} ${++marks}`
    let ended = () => {}
    const over = new Promise<void>((resolve) => {
      ended = resolve
    })
    const it: Round = { begin: `${name} begin`, end: `${name} end`, stage: 'before', unclear: false, later: [], ended }
    round = it
    try {
      const [begun, answer] = await vty.run([`logmsg debugging ${it.begin}`, SHOW, `logmsg debugging ${it.end}`])
      if (!begun?.ok || !answer?.ok) throw new Error('bgpd does not tell of its sessions')
      const sessions = await readNeighbors(answer.text)
      await within(over)
      if (closed) return
      if (it.unclear || it.stage !== 'after') wanted = true
      // What was lost meanwhile makes another round; what came after this answer is for that to say.
      if (wanted) return
      machines.settle(sessions)
      certain = true
      const now = Date.now()
      tell(
        sessions.map(({ address, state, establishedAt }) => ({
          ...{ address, state },
          at: establishedAt === undefined ? now : establishedAt * 1000,
        })),
        true,
      )
      round = undefined
      onLines(it.later)
    } finally {
      if (round === it) round = undefined
    }
  }

  function askForMark(): void {
    beating = true
    vty
      .run([`logmsg debugging ${MARK}`])
      .catch(() => {})
      .finally(() => {
        beating = false
      })
  }

  async function begin(): Promise<void> {
    log = await openLiveLog(path, { commands: COMMANDS, patience: OPEN_MS, onLines, onLost: lost })
    if (closed) {
      log.close()
      return
    }
    void settle().catch(lost)
    beat = setInterval(() => {
      if (performance.now() - heardAt > PATIENCE_MS) lost()
      else if (!beating) askForMark()
    }, BEAT_MS).unref()
  }

  return { ready: begin(), certain: () => certain, settleAgain: uncertain, close }
}

/** Rejects when it takes too long. */
function within(work: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the log of bgpd does not come')), PATIENCE_MS)
    void work.then(resolve).finally(() => clearTimeout(timer))
  })
}
