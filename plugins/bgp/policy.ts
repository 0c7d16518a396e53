/** Domain rules of prefix-lists, route-maps and what they are used for (D82). */
import { eq } from 'drizzle-orm'
import type { Change, Db, Ref } from '../../core/area.ts'
import { badRequest, conflict, lacks, limitReached, notFound } from '../../core/errors.ts'
import { listRef, mapRef, neighborRef, outletRef } from './desired.ts'
import { findNeighbor, resource as neighborResource } from './neighbors.ts'
import { queries } from './queries.ts'
import type {
  Direction,
  PrefixEntry,
  PrefixList,
  PrefixListInput,
  RouteMap,
  RouteMapEntry,
  RouteMapInput,
} from './schemas.ts'
import { type ListRow, type MapRow, neighbors, prefixLists, routeMaps } from './tables.ts'
import { readAction, readCommunities, readPrefix } from './values.ts'

/** Most lists, and most maps. */
const MAX = 1000
const STEP = 10
const LAST = 65_535

type Put<Key extends string> = { status: 'created' | 'updated' } & Record<Key, string>

export const toPrefixList = ({ name, entries }: ListRow): PrefixList => ({ name, entries: JSON.parse(entries) })
export const toRouteMap = ({ name, entries }: MapRow): RouteMap => ({ name, entries: JSON.parse(entries) })

/** @throws ApiError 400 for what cannot be read, 409 when there are too many */
export function putPrefixList(tx: Db, { name, entries = [] }: PrefixListInput): Change<Put<'prefix_list'>> {
  const read = entries.map(readPrefixEntry)
  const before = queries(tx).list.get({ name })
  if (before === undefined && (queries(tx).listCount.get()?.many ?? 0) >= MAX) throw limitReached('prefix-lists', MAX)
  const text = JSON.stringify(read)
  const row = before
    ? tx.update(prefixLists).set({ entries: text }).where(eq(prefixLists.id, before.id)).returning().get()
    : tx.insert(prefixLists).values({ name, entries: text }).returning().get()
  const status = before ? 'updated' : 'created'
  const users = queries(tx).mapsOfList.all({ name })
  return {
    result: { status, prefix_list: name },
    touch: [listRef(row.id), ...users.flatMap(({ id }) => ofMap(tx, id))],
    events: [{ type: `prefix_list.${status}`, resource: listResource(name), data: toPrefixList(row) }],
  }
}

/** @throws ApiError 404; 409 while a route-map names it */
export function deletePrefixList(tx: Db, name: string): Change<{ status: 'deleted'; prefix_list: string }> {
  const row = queries(tx).list.get({ name })
  if (row === undefined) throw notFound('prefix-list', shown(name))
  const [user] = queries(tx).mapsOfList.all({ name })
  if (user) throw conflict('IN_USE', `prefix-list ${name} is used by route-map ${user.name}`)
  tx.delete(prefixLists).where(eq(prefixLists.id, row.id)).run()
  return {
    result: { status: 'deleted', prefix_list: name },
    touch: [listRef(row.id)],
    events: [{ type: 'prefix_list.deleted', resource: listResource(name), data: { name } }],
  }
}

/** @throws ApiError 400 for what cannot be read or names no prefix-list, 409 when there are too many */
export function putRouteMap(tx: Db, { name, entries = [] }: RouteMapInput): Change<Put<'route_map'>> {
  const read = readMapEntries(tx, entries)
  const before = queries(tx).map.get({ name })
  if (before === undefined && (queries(tx).mapCount.get()?.many ?? 0) >= MAX) throw limitReached('route-maps', MAX)
  const text = JSON.stringify(read)
  const row = before
    ? tx.update(routeMaps).set({ entries: text }).where(eq(routeMaps.id, before.id)).returning().get()
    : tx.insert(routeMaps).values({ name, entries: text }).returning().get()
  const status = before ? 'updated' : 'created'
  return {
    result: { status, route_map: name },
    touch: ofMap(tx, row.id),
    events: [{ type: `route_map.${status}`, resource: mapResource(name), data: toRouteMap(row) }],
  }
}

/** @throws ApiError 404; 409 while it is somebody's policy */
export function deleteRouteMap(tx: Db, name: string): Change<{ status: 'deleted'; route_map: string }> {
  const row = queries(tx).map.get({ name })
  if (row === undefined) throw notFound('route-map', shown(name))
  const [user] = queries(tx).withMap.all({ id: row.id })
  if (user) throw conflict('IN_USE', `route-map ${name} is a policy of neighbor ${user.addr}`)
  tx.delete(routeMaps).where(eq(routeMaps.id, row.id)).run()
  return {
    result: { status: 'deleted', route_map: name },
    touch: [mapRef(row.id)],
    events: [{ type: 'route_map.deleted', resource: mapResource(name), data: { name } }],
  }
}

/** Neighbor to name of route-map, for both directions. */
export function policies(db: Db): { import: Record<string, string>; export: Record<string, string> } {
  const names = new Map(
    queries(db)
      .maps.all()
      .map(({ id, name }) => [id, name]),
  )
  const all = queries(db).neighbors.all()
  const of = (key: 'importMap' | 'exportMap') =>
    Object.fromEntries(all.flatMap((row) => (row[key] === 0 ? [] : [[row.addr, names.get(row[key]) ?? '']])))
  return { import: of('importMap'), export: of('exportMap') }
}

/** @throws ApiError 404 for an unknown neighbor or route-map */
export function setPolicy(
  tx: Db,
  direction: Direction,
  input: { neighbor: string; route_map: string },
): Change<{ status: 'updated'; direction: Direction; neighbor: string; route_map: string }> {
  const neighbor = findNeighbor(tx, input.neighbor)
  const map = queries(tx).map.get({ name: input.route_map })
  if (map === undefined) throw notFound('route-map', shown(input.route_map))
  const data = { direction, neighbor: neighbor.addr, route_map: map.name }
  return {
    result: { status: 'updated', ...data },
    touch: apply(tx, direction, neighbor, map.id),
    events: [{ type: 'bgp_policy.updated', resource: neighborResource(neighbor.addr), data }],
  }
}

/** @throws ApiError 404 also where the neighbor has no such policy */
export function clearPolicy(
  tx: Db,
  direction: Direction,
  path: string,
): Change<{ status: 'deleted'; direction: Direction; neighbor: string }> {
  const neighbor = findNeighbor(tx, path)
  if (neighbor[columnOf(direction)] === 0) throw lacks(`neighbor ${neighbor.addr}`, `${direction} policy`)
  const data = { direction, neighbor: neighbor.addr }
  return {
    result: { status: 'deleted', ...data },
    touch: apply(tx, direction, neighbor, 0),
    events: [{ type: 'bgp_policy.deleted', resource: neighborResource(neighbor.addr), data }],
  }
}

const columnOf = (direction: Direction) => (direction === 'import' ? 'importMap' : 'exportMap')

function apply(tx: Db, direction: Direction, row: { id: number; addr: string; exportMap: number }, map: number): Ref[] {
  tx.update(neighbors)
    .set({ [columnOf(direction)]: map })
    .where(eq(neighbors.id, row.id))
    .run()
  const outlets = direction === 'export' ? [outletRef(row.exportMap), outletRef(map)] : []
  return [neighborRef(row.addr), ...outlets]
}

/** A map, and whoever has it as a policy: its name changes with it. */
function ofMap(tx: Db, id: number): Ref[] {
  const users = queries(tx).withMap.all({ id })
  return [mapRef(id), outletRef(id), ...users.map(({ addr }) => neighborRef(addr))]
}

type Given<Input extends { entries?: readonly unknown[] }> = NonNullable<Input['entries']>[number]

function readPrefixEntry({ prefix, action = '', ge = 0, le = 0 }: Given<PrefixListInput>, at: number): PrefixEntry {
  const field = `entries.${at}`
  const { text, family, length } = readPrefix(prefix, `${field}.prefix`)
  const most = family === 4 ? 32 : 128
  if (ge > 0 && (ge < length || ge > most)) throw badRequest(`${field}.ge: must be from ${length} to ${most}`)
  if (le > 0 && (le < Math.max(length, ge) || le > most)) {
    throw badRequest(`${field}.le: must be from ${Math.max(length, ge)} to ${most}`)
  }
  return { prefix: text, action: readAction(action, `${field}.action`), ge, le }
}

/** By their numbers; one without gets the next. */
function readMapEntries(tx: Db, entries: readonly Given<RouteMapInput>[]): RouteMapEntry[] {
  let last = 0
  const seen = new Set<number>()
  const read = entries.map(({ seq = 0, action = '', match_prefix: list = '', ...set }, at): RouteMapEntry => {
    const field = `entries.${at}`
    last = seq > 0 ? seq : last + STEP
    if (last > LAST) throw badRequest(`${field}.seq: must be at most ${LAST}`)
    if (seen.has(last)) throw badRequest(`${field}.seq: ${last} is there twice`)
    seen.add(last)
    if (list !== '' && !queries(tx).list.get({ name: list })) {
      throw badRequest(`${field}.match_prefix: there is no such prefix-list`)
    }
    const { set_community: given, set_local_pref, set_med } = set
    const words = typeof given === 'string' ? given.split(/[\s,]+/).filter((it) => it !== '') : given
    return {
      ...{ seq: last, action: readAction(action, `${field}.action`), match_prefix: list },
      ...(set_local_pref !== undefined && { set_local_pref }),
      ...(words && words.length > 0 && { set_community: readCommunities(words, `${field}.set_community`).join(' ') }),
      ...(set_med !== undefined && { set_med }),
    }
  })
  return read.sort((a, b) => a.seq - b.seq)
}

const shown = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 64)
const listResource = (name: string): string => `/api/v1/bgp/prefix-lists/${encodeURIComponent(name)}`
const mapResource = (name: string): string => `/api/v1/bgp/route-maps/${encodeURIComponent(name)}`
