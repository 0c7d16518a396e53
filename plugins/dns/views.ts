/** Rows as the API shows them. Pure. */
import type { Db } from '../../core/area.ts'
import { queries } from './queries.ts'
import type { Record, RecordType, Zone } from './schemas.ts'
import type { RecordRow, ZoneRow } from './tables.ts'
import { readSoa } from './values.ts'

/** Seconds: refresh, retry, expire, minimum (D56). */
const TIMES = [3600, 600, 604_800, 300]

/** The SOA record of a zone: the operator's with the zone's own serial, else the default. */
export function soaOf(db: Db, zone: ZoneRow): { soa: string; ttl: number | undefined } {
  const own = queries(db).soaOf.get({ zone: zone.id, name: zone.name })
  if (own === undefined) {
    return { soa: [`ns1.${zone.name}`, `hostmaster.${zone.name}`, zone.serial, ...TIMES].join(' '), ttl: undefined }
  }
  const { mname, rname, times } = readSoa(own.value)
  return { soa: [mname, rname, zone.serial, ...times].join(' '), ttl: own.ttl }
}

export const toZone = (db: Db, row: ZoneRow): Zone => ({
  id: row.id,
  name: row.name,
  soa: soaOf(db, row).soa,
  serial: row.serial,
})

export const toRecord = ({ id, zoneId, name, type, value, ttl, subnet }: RecordRow): Record => ({
  id,
  zone_id: zoneId,
  name,
  // Stored are those that were read alone.
  type: type as RecordType,
  value,
  ttl,
  ...(subnet && { source_subnet: subnet }),
})
