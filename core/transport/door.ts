/**
 * The door of a TLS port: bounds how many connections are open, in all and from one source, before TLS costs anything.
 * Without it whoever opens connections and keeps silent takes the memory and the descriptors of the agent.
 *
 * Strangers cannot shut anybody out either. A share is kept for callers that are known, and who comes when all else is
 * taken gets the place of the connection that has been open longest without its source having shown a credential.
 */
import type { Server, Socket } from 'node:net'
import type { Agent } from '../agent.ts'
import type { Config } from '../config.ts'
import { type Client, clientOf } from '../gates/client.ts'
import { OPERATOR, STRANGER, type Standing, TENANT } from '../gates/standing.ts'

/** Between two lines of the log about connections that were refused or reset, in ms. */
const TELL_MS = 60_000
/** Whoever the allow-list keeps out counts as one address, so that strangers cannot take everybody's place. */
const STRANGERS = 'addresses that are not allowed'
/** Kept for {@link OPERATOR}; of a small bound a quarter. */
const KEPT = 64
/** An IPv6 site has a /48 and so 65,536 /64s: together they may have as much as so many of these. */
const SITE = 4

interface Caller {
  socket: Socket
  client: Client
  /** What it counts by. */
  from: string
  site: Set<Caller> | undefined
  standing: Standing
}

interface Parts extends Pick<Agent, 'app'> {
  config: Config
  gates: Pick<Agent['gates'], 'admits' | 'standing'>
  /** Whoever speaks for many callers from one address: counts in all alone. */
  shares?(address: string): boolean
}

/**
 * Guards a server that was made and does not listen yet. Over `max_connections_per_ip` (IPv6: per /64) a connection is reset
 * as soon as it is accepted, and nothing of the server sees it; over `max_connections`, or four times the former in a /48,
 * the oldest connection of no higher standing is.
 */
export function guardDoor(server: Server, parts: Parts): void {
  const { app, gates } = parts
  const crowd = openCrowd(parts)
  let told = Number.NEGATIVE_INFINITY
  const tell = (what: string, detail: object) => {
    if (performance.now() - told < TELL_MS) return
    told = performance.now()
    app.log.warn({ ...detail, open: crowd.size() }, what)
  }

  // A listener that is called later would still start TLS on a connection that is refused.
  const inside = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const client = clientOf(socket)
    const from = gates.admits(client.address) ? client.key : STRANGERS
    const { refused, reset } = crowd.enter(socket, client, from)
    // A reset leaves nothing behind in the kernel either.
    if (reset !== undefined) {
      reset.socket.resetAndDestroy()
      tell('too many connections are open: the oldest are reset', { from: reset.from })
    }
    if (refused === undefined) {
      for (const listener of inside) listener.call(server, socket)
      return
    }
    socket.resetAndDestroy()
    tell('connections are refused: too many are open', { setting: refused, from })
  })
}

type Entered = { refused?: 'max_connections' | 'max_connections_per_ip'; reset?: Caller }

/** Who is in. Each step costs the same, however many there are. */
function openCrowd({ config, gates, shares = () => false }: Parts) {
  const open = new Map<string, number>()
  const sites = new Map<string, Set<Caller>>()
  // In the order in which they came.
  const callers: Record<Standing, Set<Caller>> = { [STRANGER]: new Set(), [TENANT]: new Set(), [OPERATOR]: new Set() }
  const size = () => callers[STRANGER].size + callers[TENANT].size + callers[OPERATOR].size

  const standingOf = ({ address, key }: Client): Standing => {
    const listed = config.list('api_allowed_ips').length > 0 && gates.admits(address)
    return listed || isLoopback(address) || shares(address) ? OPERATOR : gates.standing(key)
  }

  /** The oldest of these whose standing is still what it was when it came; the others go to where they belong now. */
  function oldest(of: ReadonlySet<Caller>, standing: Standing): Caller | undefined {
    for (const caller of of) {
      if (caller.standing !== standing) continue
      const now = standingOf(caller.client)
      if (now <= standing) return caller
      callers[standing].delete(caller)
      callers[now].add(caller)
      caller.standing = now
    }
    return undefined
  }

  function leave(caller: Caller): void {
    const { from, site, client } = caller
    if (!callers[caller.standing].delete(caller)) return
    site?.delete(caller)
    if (site?.size === 0) sites.delete(siteOf(client) ?? '')
    const left = (open.get(from) ?? 1) - 1
    if (left > 0) open.set(from, left)
    else open.delete(from)
  }

  function makeRoom(standing: Standing, site: ReadonlySet<Caller> | undefined): Caller | undefined | 'none' {
    const most = config.int('max_connections')
    const kept = Math.min(KEPT, Math.floor(most / 4))
    if (standing < OPERATOR && site !== undefined && site.size >= SITE * config.int('max_connections_per_ip')) {
      return oldest(site, STRANGER) ?? 'none'
    }
    const taken = standing === OPERATOR ? size() >= most : callers[STRANGER].size + callers[TENANT].size >= most - kept
    if (!taken && size() < most) return undefined
    const stranger = oldest(callers[STRANGER], STRANGER)
    return stranger ?? (standing > STRANGER ? oldest(callers[TENANT], TENANT) : undefined) ?? 'none'
  }

  return {
    size,
    /** Lets a connection in, instead of another or not; or says which bound keeps it out. */
    enter(socket: Socket, client: Client, from: string): Entered {
      const own = open.get(from) ?? 0
      if (own >= config.int('max_connections_per_ip') && !shares(client.address)) {
        return { refused: 'max_connections_per_ip' }
      }
      const standing = standingOf(client)
      const prefix = siteOf(client)
      const reset = makeRoom(standing, prefix === undefined ? undefined : sites.get(prefix))
      if (reset === 'none') return { refused: 'max_connections' }
      if (reset !== undefined) leave(reset)
      const site = prefix === undefined ? undefined : (sites.get(prefix) ?? new Set<Caller>())
      const caller: Caller = { socket, client, from, site, standing }
      if (site !== undefined && prefix !== undefined) sites.set(prefix, site.add(caller))
      callers[standing].add(caller)
      open.set(from, (open.get(from) ?? 0) + 1)
      socket.once('close', () => leave(caller))
      return reset === undefined ? {} : { reset }
    },
  }
}

const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.')

/** The first three groups of an IPv6 source; nothing for IPv4. */
const siteOf = ({ key }: Client): string | undefined =>
  key.endsWith('::/64') ? key.split(':').slice(0, 3).join(':') : undefined
