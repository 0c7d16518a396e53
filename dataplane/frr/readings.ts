/** What the daemons tell of their work. Long listings have a connection of their own, so that nothing waits for their reader. */
import { setTimeout as sleep } from 'node:timers/promises'
import { readBfd, readInstances, readNeighbors, readPrefixCounts, readQueued, routeReader } from './answers.ts'
import type { Bgp, BgpRoute, BgpState } from './bgp.ts'
import type { Follower } from './follow.ts'
import { takesKeys } from './md5.ts'
import type { Daemon, FrrPlaces } from './session.ts'
import { openTurns } from './turns.ts'
import { openVty, type Vty } from './vty.ts'

export interface ReadingParts {
  places: FrrPlaces
  /** The connection to one that runs. */
  daemon(name: Daemon): Vty | undefined
  pids(): Readonly<Record<string, number>>
  follower: Follower
}

/** Longest wait for the next of a listing. */
const PATIENCE_MS = 60_000
/** After so much of a listing everybody else gets a turn. */
const SLICE_MS = 5
/** Between two looks at the daemons' queues; bgpd holds paths back for 50 ms, zebra routes for 10. */
const QUEUE_MS = 20

/** In place of an answer that did not come. */
const BUSY = '- 1 -'

export function openReadings({ places, daemon, pids, follower }: ReadingParts): Bgp {
  /** '' when it does not run. Throws when it runs and does not answer: then nothing is known, which is not the same as nothing there. */
  const ask = async (name: Daemon, command: string): Promise<string> => {
    const vty = daemon(name)
    if (vty === undefined) return ''
    const [outcome] = await vty.run([command]).catch((error: unknown) => {
      throw new Error(`${name} does not answer: look at journalctl -t ${name}`, { cause: error })
    })
    if (!outcome?.ok) throw new Error(`${name} does not answer "${command}": look at journalctl -t ${name}`)
    return outcome.text
  }
  /** Of each speaker what follows `show bgp`; the summary of its neighbors is the shortest answer that names it. */
  const instances = async (): Promise<string[]> =>
    readInstances(await ask('bgpd', 'show bgp vrf all ipv4 unicast summary json')).map((name) =>
      name === 'default' ? '' : ` view ${name}`,
    )
  // Of each listing that is under way bgpd keeps the whole answer in memory.
  const inTurn = openTurns()

  return {
    async neighbors() {
      const [told, sessions] = await Promise.all([
        ask('bgpd', 'show bgp vrf all neighbors json'),
        ask('bfdd', 'show bfd peers json'),
      ])
      const [all, bfd] = [await readNeighbors(told), readBfd(sessions)]
      return all.map((it) => ({
        ...it,
        state: it.state === 'Established' ? it.state : (toward(follower.state(it.address)) ?? it.state),
        bfd: it.bfd ? (bfd.get(it.address) ?? 'down') : 'disabled',
      }))
    },

    follow: follower.follow,
    follows: follower.follows,
    bfd: async () => readBfd(await ask('bfdd', 'show bfd peers json')),

    async *routes(family) {
      const turn = await ownTurn(inTurn)
      try {
        for (const instance of await instances()) {
          const vty = await openVty(`${places.runDir}/bgpd.vty`, PATIENCE_MS)
          try {
            yield* routesOf(vty.stream(`show bgp${instance} ipv${family} unicast json detail`))
          } finally {
            vty.close()
          }
        }
      } finally {
        turn.end()
      }
    },

    async prefixes() {
      const of = async (instance: string) => {
        // Asked for all instances at once bgpd of FRR 10.3 crashes.
        const answers = [4, 6].map((family) => ask('bgpd', `show bgp${instance} ipv${family} unicast statistics json`))
        return (await Promise.all(answers)).flatMap(readPrefixCounts).reduce((sum, many) => sum + many, 0)
      }
      return Promise.all((await instances()).map(of))
    },

    async converged(ms) {
      const end = performance.now() + ms
      // bgpd hands over to zebra when its queue is empty, so zebra is asked last, and once more behind what was on its way.
      for (const name of ['bgpd', 'zebra', 'zebra'] as const) {
        while (readQueued(await ask(name, 'show work-queues').catch(() => BUSY)) > 0) {
          if (performance.now() > end) return false
          await sleep(QUEUE_MS)
        }
        await sleep(QUEUE_MS)
      }
      return true
    },

    md5: takesKeys,
    pids,
  }
}

/** Of two machines bgpd tells how one is, and the other may be farther; of a session that is established only it tells the rest, too. */
const toward = (state: BgpState | undefined) => (state === 'Established' ? undefined : state)

/** Resolves when it is one's turn, which lasts until `end`. */
function ownTurn(inTurn: ReturnType<typeof openTurns>): Promise<{ end(): void }> {
  return new Promise((resolve) => void inTurn(() => new Promise<void>((end) => resolve({ end }))))
}

/** The routes of a listing as it comes. */
export async function* routesOf(chunks: AsyncIterable<Buffer>): AsyncIterable<BgpRoute[]> {
  const decoder = new TextDecoder()
  const read = routeReader()
  let [rest, since] = ['', performance.now()]
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    let found: BgpRoute[] = []
    for (const line of lines) {
      for (const route of read(line)) found.push(route)
      if (performance.now() - since < SLICE_MS) continue
      yield found
      found = []
      await new Promise(setImmediate)
      since = performance.now()
    }
    if (found.length > 0) yield found
  }
  const last = read(rest)
  if (last.length > 0) yield last
}
