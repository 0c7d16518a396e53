/** Domain rules of static routes. Whether a gateway can be reached and a device exists is the kernel's to say. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, limitReached, notFound } from '../../core/errors.ts'
import { routeEntry, routeRef } from './desired.ts'
import { readBlock, readGateway, readId, shown, stored, usable } from './input.ts'
import { queries } from './queries.ts'
import type { Route, RouteInput } from './schemas.ts'
import { type RouteRow, routes } from './tables.ts'

const resource = (id: number) => `/api/v1/routes/${id}`

/** Reads and checks what a schema cannot. Throws a 400 naming the field. */
export function readRoute(input: RouteInput): Omit<RouteRow, 'id'> {
  const destination = readBlock(input.destination, 'destination')
  if (destination === undefined) throw badRequest('destination is required')
  const gateway = readGateway(input.gateway ?? '')
  const row = {
    destination: destination.text,
    gateway: gateway?.text ?? '',
    interface: input.interface ?? '',
    metric: input.metric ?? 0,
    table: stored(usable(input.table ?? 0)),
  }
  if (row.gateway === '' && row.interface === '') throw badRequest('gateway, interface: at least one is required')
  // IPv4 by an IPv6 router is what the kernel can do.
  if (destination.family === 6 && gateway?.family === 4) throw badRequest('gateway: must be IPv6, as destination is')
  return { ...row, metric: routeEntry(row).metric }
}

export function createRoute(tx: Db, input: RouteInput, max: number): Change<{ status: 'created'; route: Route }> {
  const row = readRoute(input)
  const { destination, table, metric } = row
  if (queries(tx).routeInPlace.get({ destination, table, metric })) {
    const where = table === 0 ? 'the main table' : `table ${table}`
    throw alreadyExists(`route to ${destination} with metric ${metric} in ${where}`)
  }
  if ((queries(tx).routeCount.get()?.count ?? 0) >= max) throw limitReached('routes', max)
  const route = tx.insert(routes).values(row).returning().get()
  return {
    result: { status: 'created', route },
    touch: [routeRef(route.id)],
    events: [{ type: 'route.created', resource: resource(route.id), data: route }],
  }
}

export function deleteRoute(tx: Db, path: string): Change<{ status: 'deleted'; id: number }> {
  const id = readId(path)
  if (tx.delete(routes).where(eq(routes.id, id)).run().changes === 0) throw notFound('route', shown(path))
  return {
    result: { status: 'deleted', id },
    touch: [routeRef(id)],
    events: [{ type: 'route.deleted', resource: resource(id), data: { id } }],
  }
}
