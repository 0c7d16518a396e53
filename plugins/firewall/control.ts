/** For the local CLI: the rules with schedules and counters, what becomes of a packet, and the setting of schedules. */
import { Type } from 'typebox'
import type { TypedApp } from '../../core/area.ts'
import { conflict } from '../../core/errors.ts'
import { StringEnum } from '../../core/schemas.ts'
import { sendList } from '../../core/transport/list.ts'
import type { Plane } from '../../dataplane/plane.ts'
import { queries, rankedPage } from './queries.ts'
import { scheduleRoutes, withSchedule } from './schedule-routes.ts'
import type { Row } from './tables.ts'
import { readPacket, TraceQuery, trace } from './trace.ts'

const Query = Type.Object({ counters: Type.Optional(StringEnum(['true', 'false'])) })

export function control(app: TypedApp): void {
  const { store, plane, config, now } = app.agent
  app.get('/rules', { config: { after: 'start' }, schema: { querystring: Query } }, (request, reply) => {
    const counted = request.query.counters === 'true'
    if (counted && !plane.filter.accelerated) throw conflict('NO_CLASSIFIER', withoutClassifier(plane))
    return sendList<Row>(reply, store, {
      key: 'rules',
      page: rankedPage,
      view: (row) => (counted ? { ...withSchedule(row), ...hits(plane, row) } : withSchedule(row)),
    })
  })
  app.get('/trace', { config: { after: 'start' }, schema: { querystring: TraceQuery } }, async (request) => {
    const verdict = await trace({ plane, config, now, read: store.read }, readPacket(request.query))
    const row = verdict.id === undefined ? undefined : queries(store.read).byId.get({ id: verdict.id })
    return { ...verdict, ...(row && { rule: withSchedule(row) }) }
  })
  scheduleRoutes(app)
}

/** Absent for a rule that is left out. */
function hits({ filter }: Plane, { id }: Row): { packets?: number; bytes?: number } {
  const counted = filter.count(id)
  return counted ? { packets: Number(counted.packets), bytes: Number(counted.bytes) } : {}
}

function withoutClassifier(plane: Plane): string {
  const facility = plane.check().find(({ name }) => name === 'classifier')
  return `counters need the eBPF classifier, which is off: ${facility?.detail ?? 'this agent has none'}`
}
