/**
 * The door of a TLS port: bounds how many connections are open, in all and from one source address, before TLS costs
 * anything. Without it whoever opens connections and keeps silent takes the memory and the descriptors of the agent.
 */
import type { Server, Socket } from 'node:net'
import type { Agent } from '../app.ts'
import type { Config } from '../config.ts'
import { clientOf } from '../gates/client.ts'

/** Between two lines of the log about connections that were refused, in ms. */
const TELL_MS = 60_000
/** Whoever the allow-list keeps out counts as one address, so that strangers cannot take everybody's place. */
const STRANGERS = 'addresses that are not allowed'

/**
 * Guards a server that was made and does not listen yet: a connection over `max_connections` or over
 * `max_connections_per_ip` (IPv6: per /64) is reset as soon as it is accepted, and nothing of the server sees it.
 */
export function guardDoor(
  server: Server,
  {
    config,
    gates,
    app,
    shares = () => false,
  }: Pick<Agent, 'app'> & {
    config: Config
    gates: Pick<Agent['gates'], 'admits'>
    /** Whoever speaks for many callers from one address: counts in all alone. */
    shares?(address: string): boolean
  },
): void {
  const open = new Map<string, number>()
  let total = 0
  let told = Number.NEGATIVE_INFINITY

  /** Counts the connection, or says which bound keeps it out. */
  function count(socket: Socket): { refused?: { key: string; from: string } } {
    const { address, key } = clientOf(socket)
    const from = gates.admits(address) ? key : STRANGERS
    const own = open.get(from) ?? 0
    if (total >= config.int('max_connections')) return { refused: { key: 'max_connections', from } }
    if (own >= config.int('max_connections_per_ip') && !shares(address))
      return { refused: { key: 'max_connections_per_ip', from } }
    total++
    open.set(from, own + 1)
    socket.once('close', () => {
      total--
      const left = (open.get(from) ?? 1) - 1
      if (left > 0) open.set(from, left)
      else open.delete(from)
    })
    return {}
  }

  // A listener that is called later would still start TLS on a connection that is refused.
  const inside = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const { refused } = count(socket)
    if (refused === undefined) {
      for (const listener of inside) listener.call(server, socket)
      return
    }
    // A reset leaves nothing behind in the kernel either.
    socket.resetAndDestroy()
    if (performance.now() - told < TELL_MS) return
    told = performance.now()
    app.log.warn({ ...refused, open: total }, 'connections are refused: too many are open')
  })
}
