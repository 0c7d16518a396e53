/**
 * Follows what the programs on the ports tell: an endpoint took another port in the place of its former one, which is told
 * as an event, or has come to its first port, which is kept by name while `endpoint_ports` is `sticky`.
 */
import type { AreaContext, Change, Db, EventDraft, Ref, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import type { PortClaim } from '../../dataplane/bpf/port/claims.ts'
import { ROUTED_NET_BASE } from '../../dataplane/numbers.ts'
import { claimRef, endpointRef } from './desired.ts'
import { portUser, put } from './endpoints.ts'
import { certain, ipText } from './ipv4.ts'
import { placeQueries } from './place-queries.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { ClaimRow, EndpointRow } from './tables.ts'
import { endpointId, toEndpoint } from './views.ts'

/** So many are stored by one change, and what could not be stored is tried again so long after. */
const AT_ONCE = 64
const AGAIN_MS = 5000

type Context = Pick<AreaContext, 'plane' | 'mutate' | 'log' | 'config' | 'read' | 'now'>

/** A claim, and when it was heard of: of an endpoint that was bound later it says nothing. */
type Heard = PortClaim & { at: string }

/** Ends with what it returns. What is not stored by then is asked for by the next agent. */
export function followPorts({ plane, mutate, log, config, read, now }: Context): Stop {
  const origin = system('data plane')
  const isSticky = () => config.text('endpoint_ports') === 'sticky'
  let waiting: Heard[] = []
  let running: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  async function store(): Promise<void> {
    // Of another time, when it was set otherwise: nobody shall come back to it.
    while (!stopped && !isSticky() && anyKept(read)) await mutate(origin, forgetKept)
    while (!stopped && waiting.length > 0) {
      const portion = waiting.slice(0, AT_ONCE)
      await mutate(origin, (tx) => noteClaims(tx, portion, isSticky()))
      waiting = waiting.slice(portion.length)
    }
  }

  function soon(): void {
    if (stopped || running || timer) return
    running = store()
      .catch((error: unknown) => {
        log.error({ err: error, waiting: waiting.length }, 'ports of endpoints could not be stored; it is tried again')
        timer = setTimeout(() => {
          timer = undefined
          soon()
        }, AGAIN_MS).unref()
      })
      .finally(() => {
        running = undefined
        if (waiting.length > 0) soon()
      })
  }

  const ends = [
    plane.ports.onClaim((claim) => {
      waiting.push({ ...claim, at: now().toISOString() })
      soon()
    }),
    config.onChange((key) => {
      if (key === 'endpoint_ports') soon()
    }),
  ]
  soon()
  return async () => {
    stopped = true
    for (const end of ends) end()
    clearTimeout(timer)
    await running
  }
}

/** Keeps first ports by name when `sticky`, and tells of moves. */
export function noteClaims(tx: Db, claims: readonly Heard[], sticky: boolean): Change<undefined> {
  const [touch, events]: [Ref[], EventDraft[]] = [[], []]
  const touched = new Set<string>()
  for (const claim of claims) {
    const { net, mac } = claim
    const noted =
      net >= ROUTED_NET_BASE
        ? ofAddress(tx, routedQueries(tx).claimNumbered.get({ own: net - ROUTED_NET_BASE }), claim, sticky)
        : ofEndpoint(tx, queries(tx).endpointWithMac.get({ net, mac }), claim, sticky)
    if (noted?.touch && !touched.has(noted.touch.id)) touch.push(noted.touch)
    if (noted?.touch) touched.add(noted.touch.id)
    events.push(...(noted?.events ?? []))
  }
  return { result: undefined, touch, events }
}

interface Noted {
  touch?: Ref
  events: EventDraft[]
}

/**
 * The device to keep, by its name of now, which may be long after the claim was heard of: none for a claim that no longer
 * holds, of a port that is not known by name, or of a device that is another network's by now; and no second one.
 */
function kept(tx: Db, row: Pick<EndpointRow, 'net' | 'port' | 'keptPort'>, { from, now }: PortClaim): string {
  if (from !== undefined || row.port !== '' || row.keptPort !== '') return ''
  const port = now() ?? ''
  return portUser(tx, port, row.net) === undefined ? port : ''
}

function ofEndpoint(tx: Db, row: EndpointRow | undefined, claim: Heard, sticky: boolean): Noted | undefined {
  if (row === undefined || row.boundAt === '' || row.boundAt > claim.at) return undefined
  const network = certain(queries(tx).networkNumbered.get({ net: row.net }))
  const resource = `/api/v1/networks/${network.id}/endpoints/${endpointId(row.net, row.address)}`
  if (claim.from !== undefined) {
    const whose = { network_id: network.id, endpoint_id: endpointId(row.net, row.address) }
    return { events: [moved(resource, claim, ipText(row.address), whose)] }
  }
  const keptPort = sticky ? kept(tx, row, claim) : ''
  if (keptPort === '') return undefined
  const next = { ...row, keptPort }
  put(tx, next)
  return {
    touch: endpointRef(row),
    events: [{ type: 'endpoint.updated', resource, data: toEndpoint(network.id, next) }],
  }
}

function ofAddress(tx: Db, found: { ip: number } | undefined, claim: PortClaim, sticky: boolean): Noted | undefined {
  const row: ClaimRow | undefined = found && routedQueries(tx).claim.get(found)
  if (row === undefined || row.mac !== claim.mac) return undefined
  if (claim.from !== undefined) {
    return { events: [moved('/api/v1/routed-addresses', claim, ipText(row.ip))] }
  }
  const keptPort = sticky ? kept(tx, row, claim) : ''
  if (keptPort === '') return undefined
  placeQueries(tx).setPorts.run({ ip: row.ip, port: '', keptPort })
  return { touch: claimRef(row.ip), events: [] }
}

function moved(resource: string, { mac, port, from = '' }: PortClaim, ip: string, whose: object = {}): EventDraft {
  return { type: 'endpoint.moved', resource, data: { mac, ip, ...whose, old_port: from, new_port: port } }
}

const anyKept = (db: Db): boolean =>
  placeQueries(db).anyKept.get() !== undefined || placeQueries(db).anyKeptClaim.get() !== undefined

/** A portion of them. */
function forgetKept(tx: Db): Change<undefined> {
  placeQueries(tx).forgetKept.run()
  placeQueries(tx).forgetKeptClaims.run()
  return { result: undefined, touch: [], events: [] }
}
