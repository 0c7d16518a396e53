/**
 * The driver of the responder. The process runs while there is something to answer, and outlives the agent: the next one finds
 * it by its socket and compares. When it crashed, whoever opened the driver is told at once and brings everything again.
 */
import type { Entry, Passage } from '../entry.ts'
import { ENDPOINT_ROWS } from '../numbers.ts'
import { type ApplyMode, type Driver, GroundLost, type Pending } from '../plane.ts'
import { stepwise } from '../slices.ts'
import { responderBuild } from './build.ts'
import { isListener, isResponder, RESPONDER_KINDS, type ResponderEntry } from './entries.ts'
import { type LeaseNews, openSum, PORTION, type ResponderPassage } from './protocol.ts'
import { findResponder, type Session, type SessionEvents, startResponder } from './session.ts'
import { tryResponder } from './trial.ts'

/** A process that ends this soon after its start, again and again, is started anew later and later. */
const YOUNG_MS = 10_000
/** Guests wait meanwhile: whoever can end it again and again shall not gain a minute of silence each time. */
const MAX_PAUSE_MS = 5000
/** With nothing to answer it ends after a while, and gives back its memory. */
const REST_MS = 10_000

/** Stores lease news, one of each address; what it has not stored when it rejects comes again with the next connection. */
export type LeaseListener = (news: readonly LeaseNews[]) => Promise<void>

export interface Leases {
  /** One listener at a time; news from before it came are given to it first. Returns how to end that. */
  onLease(listener: LeaseListener): () => void
}

/** A process, once it is known which session it has. */
interface Source {
  session?: Session | undefined
}

export const NO_LEASES: Leases = { onLease: () => () => {} }

export interface ResponderDriver extends Driver {
  readonly leases: Leases
  /** Process id while it runs. */
  pid(): number | undefined
  /** Why nothing is answered now; undefined while it runs, or need not. */
  problem(): string | undefined
  /** How often it was started anew after it had ended by itself. */
  restarts(): number
}

export interface ResponderOptions {
  /** Path of its control socket. */
  path: string
  /** Told of what goes wrong outside any change. */
  onProblem(error: unknown): void
  /** What it held is gone: it must be brought to what shall be. */
  onLoss(): void
  /** Of this agent; default that of the files on disk. */
  build?: string
}

/** Rejects with a sentence for the operator where no responder can be started; one of this build that runs proves that it can. */
export async function openResponder(options: ResponderOptions): Promise<ResponderDriver> {
  const { path, onProblem, onLoss, build = responderBuild() } = options
  let session: Session | undefined
  /** Of another build: goes on answering until this one's is ready to. */
  let former: Session | undefined
  let waiting: Pending[] = []
  /** What the last observation saw is there no more. */
  let lost = false
  /** The last observation saw none, though there was something to answer, and nothing was brought since. */
  let bare = false
  let down: string | undefined
  let [startedAt, early, restarts] = [0, 0, 0]
  let [again, rest]: (NodeJS.Timeout | undefined)[] = []
  let listener: LeaseListener | undefined
  /** The newest of each address, and where it came from. */
  let unheard = new Map<string, { news: LeaseNews; from: Source }>()
  let storing: Promise<void> = Promise.resolve()

  /** Opens a session whose events count for as long as it is the one in charge. */
  async function opened<S extends Session | undefined>(open: (events: SessionEvents) => Promise<S>): Promise<S> {
    const own: Source = {}
    const session = await open(eventsOf(own))
    own.session = session
    return session
  }

  const eventsOf = (own: Source): SessionEvents => ({
    onLost() {
      if (own.session !== undefined && own.session === former) former = undefined
      if (session !== undefined && own.session === session) lose()
    },
    onLeases(list) {
      for (const news of list) unheard.set(`${news.net}/${news.address}`, { news, from: own })
      // There are not so many addresses: it makes them up.
      if (unheard.size > 2 * ENDPOINT_ROWS) {
        unheard.clear()
        own.session?.end()
      } else store()
    },
    onWaiting(entries) {
      if (own.session === session) waiting = entries
    },
    onProblem: (text) => onProblem(new Error(`responder: ${text}`)),
  })

  function lose(): void {
    session = undefined
    lost = true
    restarts++
    early = performance.now() - startedAt < YOUNG_MS ? early + 1 : 0
    const pause = early < 2 ? 0 : Math.min(MAX_PAUSE_MS, 250 * 2 ** early)
    down = `the responder ended by itself; it is started anew ${pause ? `in ${pause} ms` : 'at once'}`
    onProblem(new Error(down))
    again = setTimeout(onLoss, pause)
  }

  function store(): void {
    storing = storing.then(async () => {
      if (listener === undefined || unheard.size === 0) return
      const heard = [...unheard.values()]
      unheard = new Map()
      try {
        await listener(heard.map(({ news }) => news))
        // Each process numbers by itself.
        const upTo = new Map<Source, number>()
        for (const { news, from } of heard) upTo.set(from, Math.max(news.seq, upTo.get(from) ?? 0))
        for (const [from, seq] of upTo) from.session?.stored(seq)
      } catch (error) {
        onProblem(error)
      }
    })
  }

  const found = await opened((events) => findResponder(path, events))
  if (found && found.build === build) {
    session = found
    session.watch()
  } else {
    former = found
    // Nothing is told to be there that could not be started.
    await tryResponder(path)
  }

  async function running(): Promise<Session> {
    if (session) return session
    // One that has lost us, or that another agent has started meanwhile.
    const there = former ? undefined : await opened((events) => findResponder(path, events))
    if (there) await end(there)
    startedAt = performance.now()
    session = await opened((events) => startResponder(path, events)).catch((error: Error) => {
      down = error.message
      throw error
    })
    down = undefined
    session.watch()
    return session
  }

  async function end(ending: Session): Promise<void> {
    if (ending === session) session = undefined
    await ending.ask({ do: 'stop' }).catch(() => {})
    ending.close()
  }

  async function everything(from: Session): Promise<ResponderEntry[]> {
    const all: ResponderEntry[] = []
    for (;;) {
      const last = all.at(-1)?.key ?? ''
      const { entries = [] } = await from.ask({ do: 'list', after: last })
      // It would never come to an end.
      if (entries.some(({ key }) => key <= last)) throw new Error('the responder lists what it has listed before')
      all.push(...entries)
      if (entries.length < PORTION) return all
    }
  }

  async function observe(desired: readonly Entry[] = []): Promise<Entry[]> {
    const mine = desired.filter(isResponder)
    const nothing = () => {
      lost = false
      bare = mine.length > 0
      if (!bare) down = undefined
      return []
    }
    if (session === undefined) return nothing()
    lost = false
    try {
      const { digest } = await session.ask({ do: 'digest' })
      return digest === (await stepwise(digestOf(mine))) ? mine : await everything(session)
    } catch (error) {
      // It has just ended, so it holds nothing.
      onProblem(error)
      return session === undefined ? nothing() : []
    }
  }

  async function apply(diff: readonly Passage[], mode: ApplyMode = 'change'): Promise<void> {
    if (mode === 'change' && lost) throw new GroundLost('the responder has just been started anew')
    if (mode === 'change' && bare && session === undefined) throw new GroundLost(down ?? 'the responder does not run')
    if (session === undefined && diff.every(({ after }) => after === undefined)) return
    clearTimeout(rest)
    const to = await running()
    const passages = diff as readonly ResponderPassage[]
    for (let at = 0; at < passages.length; at += PORTION) {
      await to.ask({ do: 'stage', passages: passages.slice(at, at + PORTION) })
    }
    if (former && passages.some(({ after }) => after && isListener(after))) {
      await end(former)
      former = undefined
    }
    const { size } = await to.ask({ do: 'commit', patient: mode === 'restore' })
    bare = false
    if (size === 0) rest = setTimeout(() => session && void end(session), REST_MS).unref()
  }

  return {
    name: 'responder',
    kinds: RESPONDER_KINDS,
    observe,
    apply,
    pending: () => waiting,
    leases: {
      onLease(next) {
        listener = next
        store()
        return () => {
          if (listener === next) listener = undefined
        }
      },
    },
    pid: () => session?.pid,
    problem: () => down,
    restarts: () => restarts,
    async close() {
      clearTimeout(again)
      clearTimeout(rest)
      await storing
      // It goes on answering.
      session?.close()
      former?.close()
    },
  }
}

function* digestOf(entries: readonly ResponderEntry[]): Generator<void, string> {
  const sum = openSum()
  for (const entry of entries) {
    sum.flip(entry)
    yield
  }
  return sum.text()
}
