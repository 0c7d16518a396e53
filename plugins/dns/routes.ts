/** REST of zones, records and DNSSEC. */
import { Type } from 'typebox'
import type { TypedApp } from '../../core/area.ts'
import { ApiError } from '../../core/errors.ts'
import { licenceRefusal } from '../../core/licence/state.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut, originOf } from '../../core/transport/mutation.ts'
import { dnskeyOf, newCsk } from '../../responder/dns/keys.ts'
import { queries } from './queries.ts'
import { createRecord, createZone, deleteRecord, deleteZone, enableDnssec, zoneCalled } from './rules.ts'
import * as schema from './schemas.ts'
import type { RecordRow, ZoneRow } from './tables.ts'
import { toRecord, toZone } from './views.ts'

const AREA = 'dns'
/** Text that is no id names nothing, like any other unknown one. */
const idOf = ({ params }: { params: unknown }): number => {
  const { id } = params as { id: string }
  return /^[1-9][0-9]{0,14}$/.test(id) ? Number(id) : 0
}

export function routes(app: TypedApp): void {
  const { store, config, now, licence } = app.agent
  const terms = (key: string) => ({ max: config.int(key), now: now() })

  app.get('/dns/zones', { schema: { summary: 'All zones', response: { 200: schema.ZoneList } } }, (_, reply) =>
    sendList<ZoneRow>(reply, store, {
      key: 'zones',
      page: (db, last) => queries(db).zonePage.all({ after: last?.id ?? 0 }),
      view: (row) => toZone(store.read, row),
    }),
  )
  app.post(
    '/dns/zones',
    { schema: { summary: 'Add a zone', body: schema.ZoneInput, response: { 201: schema.ZoneCreated } } },
    async (request, reply) => {
      const created = carryOut(request, reply, AREA, (tx) => createZone(tx, request.body, terms('max_zones')))
      return reply.code(201).send(await created)
    },
  )
  app.delete(
    '/dns/zones/:id',
    { schema: { summary: 'Delete a zone with its records', response: { 200: schema.ZoneDeleted } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteZone(tx, idOf(request))),
  )
  app.get(
    '/dns/records',
    { schema: { summary: 'All records', querystring: schema.RecordQuery, response: { 200: schema.RecordList } } },
    (request, reply) => {
      const { zone_id } = request.query
      return sendList<RecordRow>(reply, store, {
        key: 'records',
        page: (db, last) => {
          const after = last?.id ?? 0
          return zone_id === undefined
            ? queries(db).recordPage.all({ after })
            : queries(db).recordPageOfZone.all({ zone: Number(zone_id), after })
        },
        view: toRecord,
      })
    },
  )
  app.post(
    '/dns/records',
    { schema: { summary: 'Add a record', body: schema.RecordInput, response: { 201: schema.RecordCreated } } },
    async (request, reply) => {
      const created = carryOut(request, reply, AREA, (tx) => createRecord(tx, request.body, terms('max_records')))
      return reply.code(201).send(await created)
    },
  )
  app.put(
    '/dns/records/:id',
    {
      schema: {
        summary: 'Not offered: delete the record and add it anew',
        response: { 501: Type.Object({ error: Type.String() }) },
      },
    },
    () => {
      throw new ApiError(501, 'NOT_OFFERED', 'a record is not changed in place: delete it and create it anew')
    },
  )
  app.delete(
    '/dns/records/:id',
    { schema: { summary: 'Delete a record', response: { 200: schema.RecordDeleted } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteRecord(tx, idOf(request), now())),
  )
  app.get(
    '/dns/dnssec/:zone',
    {
      config: { after: 'start' },
      schema: { summary: 'Keys of a signed zone; the first call signs it', response: { 200: schema.Dnssec } },
    },
    async (request, reply) => {
      const zone = zoneCalled(store.read, (request.params as { zone: string }).zone)
      const known = queries(store.read).keyOf.get({ zone: zone.id })
      // Reading is never refused, changing is (D58).
      if (known === undefined && licenceRefusal(licence.view())) return sendOne(request, reply, unsigned(zone))
      if (known === undefined) {
        const csk = newCsk()
        const rule = (tx: typeof store.read) => enableDnssec(tx, zone, csk, now(), signed(zone, csk))
        await app.agent.pipeline.mutate(AREA, originOf(request), rule)
      }
      const key = queries(store.read).keyOf.get({ zone: zone.id })
      return sendOne(request, reply, key ? signed(zone, key.csk) : unsigned(zone))
    },
  )
}

const unsigned = ({ name }: ZoneRow): schema.Dnssec => ({ zone: name, enabled: false, dnskey: [], ds: '' })

function signed({ name }: ZoneRow, csk: string): schema.Dnssec {
  const { dnskey, ds } = dnskeyOf(name, csk)
  return { zone: name, enabled: true, dnskey: [dnskey], ds }
}
