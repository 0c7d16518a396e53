/** Domain rules of zones, records and keys. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, limitReached, notFound } from '../../core/errors.ts'
import { recordRef, wholeRef, zoneRef } from './desired.ts'
import { readName, readZoneName } from './names.ts'
import { queries } from './queries.ts'
import type { Record, RecordInput, Zone, ZoneInput } from './schemas.ts'
import { keys, type RecordRow, records, type ZoneRow, zones } from './tables.ts'
import { readSoa, readSubnet, readValue } from './values.ts'
import { toRecord, toZone } from './views.ts'

/** Seconds. */
const DEFAULT_TTL = 300
const MAX_SERIAL = 0xffffffff
const zonePath = (id: number) => `/api/v1/dns/zones/${id}`
const recordPath = (id: number) => `/api/v1/dns/records/${id}`

/** Date and a counter of two digits (D56), and greater than `last` in any case. */
export function nextSerial(last: number, now: Date): number {
  const today = Number(now.toISOString().slice(0, 10).replaceAll('-', '')) * 100 + 1
  // RFC 1982 §3.1: the number behind the greatest is 0.
  return last >= MAX_SERIAL ? 1 : Math.max(last + 1, today)
}

/** Limits of the configuration, and the time. */
export interface Terms {
  max: number
  now: Date
}

export function createZone(tx: Db, input: ZoneInput, { max, now }: Terms): Change<{ status: 'created'; zone: Zone }> {
  const name = readZoneName(input.name)
  if (queries(tx).zoneNamed.get({ name })) throw alreadyExists(`zone ${name}`)
  const outer = enclosing(tx, parentOf(name))
  const hidden = outer && queries(tx).contentBelow.get({ zone: outer.id, name, below: `.${name}` })
  if (hidden)
    throw conflict('ZONE_CUT', `zone ${outer.name} has records of ${hidden.name}, which would no longer be served`)
  if ((queries(tx).zoneCount.get()?.count ?? 0) >= max) throw limitReached('zones', max)
  const row = tx
    .insert(zones)
    .values({ name, serial: nextSerial(0, now) })
    .returning()
    .get()
  const zone = toZone(tx, row)
  return {
    result: { status: 'created', zone },
    touch: [zoneRef(row.id)],
    events: [{ type: 'zone.created', resource: zonePath(row.id), data: zone }],
  }
}

/** Its records and its key go with it. */
export function deleteZone(tx: Db, id: number): Change<{ status: 'deleted'; id: number }> {
  if (tx.delete(zones).where(eq(zones.id, id)).run().changes === 0) throw notFound('zone', id)
  tx.delete(records).where(eq(records.zoneId, id)).run()
  tx.delete(keys).where(eq(keys.zoneId, id)).run()
  return {
    result: { status: 'deleted', id },
    touch: [wholeRef(id)],
    events: [{ type: 'zone.deleted', resource: zonePath(id), data: { id } }],
  }
}

export function createRecord(
  tx: Db,
  input: RecordInput,
  { max, now }: Terms,
): Change<{ status: 'created'; record: Record }> {
  const zone = queries(tx).zone.get({ id: input.zone_id })
  if (zone === undefined) throw notFound('zone', input.zone_id)
  const row = readRecord(zone, input)
  const inner = enclosing(tx, row.name)
  const delegates = row.type === 'NS' && inner?.name === row.name
  if (inner && inner.id !== zone.id && !delegates) {
    throw conflict('ZONE_CUT', `${row.name} is served by zone ${inner.name}: add the record there`)
  }
  checkPlace(tx, zone, row)
  if ((queries(tx).recordCount.get()?.count ?? 0) >= max) throw limitReached('records', max)
  const stored = tx.insert(records).values(row).returning().get()
  raiseSerial(tx, zone, now, row.type === 'SOA' ? readSoa(row.value).serial : 0)
  const record = toRecord(stored)
  return {
    result: { status: 'created', record },
    touch: [recordRef(stored.id), zoneRef(zone.id)],
    events: [{ type: 'record.created', resource: recordPath(stored.id), data: record }],
  }
}

export function deleteRecord(tx: Db, id: number, now: Date): Change<{ status: 'deleted'; record_id: number }> {
  const row = queries(tx).record.get({ id })
  const zone = row && queries(tx).zone.get({ id: row.zoneId })
  if (zone === undefined) throw notFound('record', id)
  tx.delete(records).where(eq(records.id, id)).run()
  raiseSerial(tx, zone, now, 0)
  return {
    result: { status: 'deleted', record_id: id },
    touch: [recordRef(id), zoneRef(zone.id)],
    events: [{ type: 'record.deleted', resource: recordPath(id), data: { id } }],
  }
}

/** Signs a zone from now on with a key of its own; one that is signed keeps its key. `csk`: PKCS8 DER, base64. */
export function enableDnssec(tx: Db, zone: ZoneRow, csk: string, now: Date, shown: object): Change<void> {
  if (queries(tx).zone.get({ id: zone.id }) === undefined) throw notFound('zone', zone.name)
  if (queries(tx).keyOf.get({ zone: zone.id })) return { result: undefined, touch: [], events: [] }
  tx.insert(keys).values({ zoneId: zone.id, csk }).run()
  raiseSerial(tx, zone, now, 0)
  return {
    result: undefined,
    touch: [zoneRef(zone.id)],
    events: [{ type: 'dnssec.created', resource: `/api/v1/dns/dnssec/${zone.name}`, data: shown }],
  }
}

/** The zone that a path names, with or without the dot at its end. @throws ApiError 404 */
export function zoneCalled(db: Db, text: string): ZoneRow {
  const name = `${text.toLowerCase().replace(/\.$/, '')}.`
  const zone = queries(db).zoneNamed.get({ name })
  if (zone === undefined) throw notFound('zone', text.replace(/[^\x21-\x7e]/g, '?').slice(0, 255))
  return zone
}

/** The zone that answers for a name: the longest that it lies in. */
function enclosing(db: Db, name: string): ZoneRow | undefined {
  for (let at = name; at !== ''; at = parentOf(at)) {
    const zone = queries(db).zoneNamed.get({ name: at })
    if (zone) return zone
  }
  return undefined
}

/** `example.org.` of `www.example.org.`; '' of what has no name above it but the root. */
const parentOf = (name: string): string => name.slice(name.indexOf('.') + 1)

/** Reads and checks what a schema cannot. Throws a 400 naming the field. */
function readRecord(zone: ZoneRow, input: RecordInput): Omit<RecordRow, 'id'> {
  const { type, ttl = DEFAULT_TTL } = input
  const name = readName(input.name, zone.name)
  if (type === 'SOA' && name !== zone.name) throw badRequest('name: the SOA record is that of the zone itself: @')
  const subnet = readSubnet(input.source_subnet ?? '')
  if (type === 'SOA' && subnet !== '') throw badRequest('source_subnet: a zone has one SOA record for everybody')
  return { zoneId: zone.id, name, type, value: readValue(type, input.value), ttl, subnet }
}

function checkPlace(tx: Db, zone: ZoneRow, row: Omit<RecordRow, 'id'>): void {
  const { name, type, subnet, value } = row
  const what = `${type} record ${name}`
  if (queries(tx).recordInPlace.get({ zone: zone.id, name, type, subnet, value })) throw alreadyExists(what)
  const sets = queries(tx).setsAt.all({ zone: zone.id, name })
  const has = (wanted: string) => sets.some((set) => set.type === wanted)
  if (type === 'SOA' && has('SOA')) throw alreadyExists(what)
  if (type === 'CNAME') {
    // RFC 1034 §3.6.2. What the zone itself has always is an SOA record.
    if (name === zone.name) throw alone(`${name} is the zone itself`)
    if (sets.some((set) => set.type !== 'CNAME')) throw alone(`${name} has other records`)
    if (sets.some((set) => set.subnet === subnet)) throw alreadyExists(what)
  } else if (has('CNAME')) throw alone(`${name} has one`)
}

const alone = (why: string) => conflict('CNAME_ALONE', `a CNAME record stands alone at its name, and ${why}`)

function raiseSerial(tx: Db, zone: ZoneRow, now: Date, atLeast: number): void {
  const serial = Math.max(nextSerial(zone.serial, now), atLeast)
  tx.update(zones).set({ serial }).where(eq(zones.id, zone.id)).run()
}
