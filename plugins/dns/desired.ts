/** Rows → what the responder answers. Pure. */
import type { Db, Desired, Ref } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { dnsListener, dnsRecord, dnsZone, type ResponderEntry } from '../../dataplane/responder/entries.ts'
import { hostGateway, hostGateways, readRef } from '../networks/offers.ts'
import { queries } from './queries.ts'
import type { RecordRow, ZoneRow } from './tables.ts'
import { soaOf } from './views.ts'

const AREA = 'dns'
const PORT = 53
/** Of an SOA record that the operator did not give, seconds. */
const SOA_TTL = 3600

const ref = (id: string): Ref => ({ area: AREA, id })
/** A zone without its records. */
export const zoneRef = (id: number): Ref => ref(`zone/${id}`)
export const recordRef = (id: number): Ref => ref(`record/${id}`)
/** A zone with all its records. */
export const wholeRef = (id: number): Ref => ref(`whole/${id}`)

export const desired: Desired = {
  *all(db, config) {
    yield* listeners(config, hostGateways(db))
    for (const row of queries(db).allZones.all()) yield* wholeZone(db, row)
  },
  one(db, id, config) {
    const [kind, number] = id.split('/')
    const key = { id: Number(number) }
    switch (kind) {
      case 'gateway':
        return config.text('dns_listen') === '' ? listeners(config, [hostGateway(db, key.id)]) : []
      case 'record':
        return queries(db)
          .record.all(key)
          .flatMap((row) => recordEntry(db, row))
      default: {
        const row = queries(db).zone.get(key)
        if (row === undefined) return []
        return kind === 'whole' ? [...wholeZone(db, row)] : [zoneEntry(db, row)]
      }
    }
  },
}

/** Refs of this area by what a ref of the networks touches. */
export const follows = {
  networks(_: Db, id: string): string[] {
    const place = readRef(id)
    return place?.kind === 'net' ? [`gateway/${place.net}`] : []
  },
}

/** Where nothing else is configured: on the gateways that the node holds for its networks (D53). */
function listeners(config: Config, gateways: readonly (string | undefined)[]): ResponderEntry[] {
  const configured = config.list('dns_listen').flatMap((text) => parsePrefix(text)?.text ?? [])
  const addresses = configured.length > 0 ? new Set(configured) : gateways
  return [...addresses].flatMap((address) => (address ? dnsListener(AREA, { address, port: PORT }) : []))
}

function* wholeZone(db: Db, zone: ZoneRow): Generator<ResponderEntry> {
  yield zoneEntry(db, zone)
  for (let after = 0; ; ) {
    const rows = queries(db).recordPageOfZone.all({ zone: zone.id, after })
    for (const row of rows) yield* recordEntry(db, row, zone)
    const last = rows.at(-1)
    if (last === undefined) return
    after = last.id
  }
}

function zoneEntry(db: Db, zone: ZoneRow): ResponderEntry {
  const { soa, ttl = SOA_TTL } = soaOf(db, zone)
  const key = queries(db).keyOf.get({ zone: zone.id })
  return dnsZone(AREA, { name: zone.name, soa, soaTtl: ttl, ...(key && { csk: key.csk }) })
}

/** The SOA record stands in its zone's entry. */
function recordEntry(db: Db, row: RecordRow, zone = queries(db).zone.get({ id: row.zoneId })): ResponderEntry[] {
  const { id, name, type, value, ttl, subnet } = row
  if (zone === undefined || type === 'SOA') return []
  // Stored are those types that were read alone.
  return [dnsRecord(AREA, id, { zone: zone.name, name, type: type as 'A', ttl, value, subnet })]
}
