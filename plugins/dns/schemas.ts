import { type Static, Type } from 'typebox'
import { Printable, RowId, StringEnum } from '../../core/schemas.ts'

export const TYPES = ['A', 'AAAA', 'PTR', 'CNAME', 'MX', 'TXT', 'NS', 'SOA', 'SRV'] as const
export type RecordType = (typeof TYPES)[number]

/** Names and values are read by the rules, so that the error can say what is wrong with them. */
const NameText = Printable(255)
const Ttl = Type.Integer({ minimum: 0, maximum: 0x7fffffff, description: 'seconds' })

export const ZoneInput = Type.Object({ name: NameText })
export const Zone = Type.Object({
  id: Type.Integer(),
  name: Type.String({ description: 'with a dot at its end' }),
  soa: Type.String({ description: 'MNAME RNAME SERIAL REFRESH RETRY EXPIRE MINIMUM' }),
  serial: Type.Integer({ description: 'rises with every change to the zone' }),
})
export const ZoneList = Type.Object({ zones: Type.Array(Zone) })
export const ZoneCreated = Type.Object({ status: StringEnum(['created']), zone: Zone })
export const ZoneDeleted = Type.Object({ status: StringEnum(['deleted']), id: Type.Integer() })

export const RecordInput = Type.Object({
  zone_id: RowId,
  name: Printable(255, 'relative to the zone (`www`), `@` for the zone itself, or whole'),
  type: StringEnum(TYPES),
  value: Printable(4096),
  ttl: Type.Optional(Ttl),
  source_subnet: Type.Optional(Printable(64, 'who is answered with it; empty: everybody')),
})
export const Record = Type.Object({
  id: Type.Integer(),
  zone_id: Type.Integer(),
  name: Type.String({ description: 'whole, with a dot at its end' }),
  type: StringEnum(TYPES),
  value: Type.String(),
  ttl: Ttl,
  source_subnet: Type.Optional(Type.String()),
})
export const RecordQuery = Type.Object({
  zone_id: Type.Optional(Type.String({ title: 'the number of a zone', pattern: '^[0-9]{1,15}$' })),
})
export const RecordList = Type.Object({ records: Type.Array(Record) })
export const RecordCreated = Type.Object({ status: StringEnum(['created']), record: Record })
export const RecordDeleted = Type.Object({ status: StringEnum(['deleted']), record_id: Type.Integer() })

export const Dnssec = Type.Object({
  zone: Type.String(),
  enabled: Type.Boolean(),
  dnskey: Type.Array(Type.String(), { description: 'as in a zone file' }),
  ds: Type.String({ description: 'what the parent zone must hold' }),
})

export type ZoneInput = Static<typeof ZoneInput>
export type Zone = Static<typeof Zone>
export type RecordInput = Static<typeof RecordInput>
export type Record = Static<typeof Record>
export type Dnssec = Static<typeof Dnssec>
