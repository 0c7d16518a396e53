/**
 * Follows the sessions: what has changed is stored and told. Each move of a session comes from the speaker by itself; asking is for what it does
 * not tell (BFD), and for as long as it tells nothing.
 */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { queries } from './queries.ts'
import { bfdOf, changed, everyOne, follow, type Seen, stateOf } from './seen.ts'

const EVERY_MS = 250
/** What hundreds of neighbors say takes long to read: so many times as long nothing is asked, but never longer than the most. */
const RESTS = 20
const MOST_MS = 5000
/** Moves come in bursts: what follows the first within so long goes into the same mutation, up to so many. */
const GATHER_MS = 20
const TOGETHER = 200
/** While nothing can be stored so many are kept; beyond that all sessions are told anew. */
const MOST_HEARD = 20_000
const AGAIN_MS = 1000

export function watchSessions({ read, plane, mutate, now, log }: AreaContext): Stop {
  const heard: Seen[] = []
  const failing = { look: false, store: false }
  let stopped = false
  let gathering: NodeJS.Timeout | undefined
  let [storing, looking]: (Promise<void> | undefined)[] = []

  function hear(seen: readonly Seen[]): void {
    for (const it of seen) heard.push(it)
    if (heard.length > MOST_HEARD) {
      heard.length = 0
      unfollow()
      unfollow = followAll()
    }
    if (heard.length > 0) soon(GATHER_MS)
  }

  /** Of how all are, what has not been told; that is known only when nothing waits. */
  const news = (seen: readonly Seen[]) => (heard.length > 0 || storing ? seen : changed(read, seen))
  const followAll = () => plane.bgp.follow((seen, whole) => hear(whole ? news(everyOne(read, seen, now())) : seen))

  function soon(ms: number): void {
    if (stopped || storing) return
    gathering ??= setTimeout(() => {
      gathering = undefined
      storing = store().finally(() => {
        storing = undefined
        if (heard.length > 0) soon(failing.store ? AGAIN_MS : 0)
      })
    }, ms)
  }

  /** In order, so that each move begins where the one before has ended. */
  async function store(): Promise<void> {
    const some = heard.splice(0, TOGETHER)
    try {
      await mutate(system('bgp'), (tx) => follow(tx, some))
      failing.store = false
    } catch (error) {
      warn('store', error)
      heard.unshift(...some)
    }
  }

  function warn(what: keyof typeof failing, error: unknown): void {
    if (!failing[what]) log.warn({ err: error }, 'the BGP sessions could not be followed; this is tried again')
    failing[what] = true
  }

  async function look(): Promise<void> {
    try {
      const follows = plane.bgp.follows()
      const seen = follows ? await heardOfBfd() : everyOne(read, (await plane.bgp.neighbors()).map(stateOf), now())
      failing.look = false
      // What has come by itself meanwhile is newer.
      if (plane.bgp.follows() === follows) hear(news(seen))
    } catch (error) {
      warn('look', error)
    }
  }

  const heardOfBfd = async () => (queries(read).anyBfd.get() ? bfdOf(read, await plane.bgp.bfd(), now()) : [])

  let unfollow = followAll()
  let clock = setTimeout(turn, EVERY_MS)
  function turn(): void {
    const since = performance.now()
    looking = (queries(read).speaker.get() === undefined ? Promise.resolve() : look()).then(() => {
      const rest = RESTS * (performance.now() - since)
      if (!stopped) clock = setTimeout(turn, Math.min(MOST_MS, Math.max(EVERY_MS, rest)))
    })
  }
  return async () => {
    stopped = true
    unfollow()
    clearTimeout(clock)
    clearTimeout(gathering)
    await looking
    await storing
  }
}
