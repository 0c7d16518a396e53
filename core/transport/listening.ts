/** How a server comes to listen, on a socket that is new or was left by the agent before. */
import type { Server as NetServer } from 'node:net'
import { type Keep, NOT_KEPT, type Place } from '../kept-sockets.ts'

/**
 * Resolves when `server` listens at `place`. What it listens on is kept from then on.
 * @throws what listen(2) says
 */
export async function listenAt(server: NetServer, place: Place, keep: Keep = NOT_KEPT): Promise<void> {
  const fd = keep.take(place)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.once('listening', () => {
      server.off('error', reject)
      resolve()
    })
    if (fd !== undefined) server.listen({ fd })
    else if ('path' in place) server.listen(place.path)
    else server.listen(place.port, ...(place.address === '' ? [] : [place.address]))
  })
  const own = descriptorOf(server)
  if (own !== undefined && own !== fd) keep.keep(own)
}

/** Of what a server listens on. Node has no word for it; where its handle tells none, nothing is kept. */
function descriptorOf(server: NetServer): number | undefined {
  const { _handle: handle } = server as NetServer & { _handle?: { fd?: unknown } }
  return typeof handle?.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined
}
