/** The routes of a family, as they come: nothing holds all of them. */
import type { Db } from '../../core/area.ts'
import type { Bgp, BgpRoute } from '../../dataplane/frr/bgp.ts'
import { toRoute } from './announcements.ts'
import { everyAnnouncement } from './queries.ts'
import type { Route } from './schemas.ts'

export interface Wanted {
  family: 4 | 6
  /** '' is all. */
  peer: string
  best: boolean | undefined
}

export const toReceived = (route: BgpRoute): Route => ({
  prefix: route.prefix,
  next_hop: route.nextHop,
  as_path: route.asPath,
  communities: route.communities,
  ...(route.localPref !== undefined && { local_pref: route.localPref }),
  ...(route.med !== undefined && { med: route.med }),
  origin: route.origin,
  peer_addr: route.peer,
  source: 'received',
  best: route.best,
  received_at: new Date(route.receivedAt * 1000).toISOString(),
})

/** The pieces as they are taken. `abandon` is called when one has waited for its reader longer than `patience` ms; it must end the reading. */
export async function* whileTaken<T>(pieces: AsyncIterable<T>, patience: number, abandon: () => void) {
  for await (const piece of pieces) {
    const timer = setTimeout(abandon, patience)
    try {
      yield piece
    } finally {
      clearTimeout(timer)
    }
  }
}

/** The answer to a listing, in pieces. Our own first, from one moment; then what neighbors have told. */
export async function* routeList(db: Db, bgp: Bgp, { family, peer, best }: Wanted): AsyncGenerator<string> {
  yield `{"family":"ipv${family}","routes":[`
  const own = Array.from(everyAnnouncement(db)).filter((row) => row.family === family && peer === '' && best !== false)
  let separator = ''
  const piece = (routes: readonly Route[]): string => {
    if (routes.length === 0) return ''
    const text = separator + routes.map((route) => JSON.stringify(route)).join(',')
    separator = ','
    return text
  }
  const PIECE = 500
  for (let at = 0; at < own.length; at += PIECE) yield piece(own.slice(at, at + PIECE).map(toRoute))
  for await (const routes of bgp.routes(family)) {
    const wanted = routes.filter((it) => (peer === '' || it.peer === peer) && (best === undefined || it.best === best))
    const text = piece(wanted.map(toReceived))
    if (text !== '') yield text
  }
  yield ']}'
}
