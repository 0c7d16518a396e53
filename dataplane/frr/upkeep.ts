/** What is looked at from time to time while the daemons run: sessions that bfdd has not been told of, and a zebra beside ours. */
import type { Pending } from '../plane.ts'
import { missingSessions } from './bfd-sessions.ts'
import { placed } from './commands.ts'
import { type Daemon, type FrrPlaces, otherZebra } from './session.ts'
import type { openTurns } from './turns.ts'
import type { Vty } from './vty.ts'

/** So often, and so many times after a daemon was started, it is seen to that bfdd has all sessions. */
const BFD_MS = 1000
const BFD_TIMES = 30
/** It takes reading a line of every process of the node: so many times as long nothing is read. */
const BESIDE_MS = 5000
const BESIDE_RESTS = 100

export interface UpkeepParts {
  places: FrrPlaces
  inTurn: ReturnType<typeof openTurns>
  /** The connection to one that runs. */
  daemon(name: Daemon): Vty | undefined
}

export interface Upkeep {
  /** A daemon has been started. */
  started(): void
  /** What an operator must put right. */
  troubles(): Pending[]
  close(): void
}

export function openUpkeep({ places, inTurn, daemon }: UpkeepParts): Upkeep {
  let [bfd, beside]: (NodeJS.Timeout | undefined)[] = []
  let other: number | undefined
  let closed = false

  function keepUp(times: number): void {
    clearTimeout(bfd)
    if (closed || times === 0) return
    const look = () =>
      inTurn(async () => {
        const [bgpd, bfdd] = [daemon('bgpd'), daemon('bfdd')]
        if (!bgpd || !bfdd) return
        const missing = await missingSessions(bgpd, bfdd)
        if (missing.length > 0) await bgpd.run(['configure terminal', ...placed(missing), 'end'])
      })
        // Whatever has ended meanwhile is started anew, and then comes the next.
        .catch(() => {})
        .finally(() => keepUp(times - 1))
    bfd = setTimeout(look, BFD_MS).unref()
  }

  function lookBeside(after: number): void {
    const look = async () => {
      const since = performance.now()
      other = daemon('zebra') && (await otherZebra(places).catch(() => undefined))
      if (!closed) lookBeside(Math.max(BESIDE_MS, BESIDE_RESTS * (performance.now() - since)))
    }
    beside = setTimeout(look, after).unref()
  }
  lookBeside(BESIDE_MS)

  return {
    started: () => keepUp(BFD_TIMES),
    troubles: () =>
      other === undefined
        ? []
        : [
            {
              key: 'frr/zebra',
              reason: `another zebra (pid ${other}) runs beside this node's own, and each deletes the other's routes: systemctl disable --now frr`,
            },
          ],
    close() {
      closed = true
      clearTimeout(bfd)
      clearTimeout(beside)
    },
  }
}
