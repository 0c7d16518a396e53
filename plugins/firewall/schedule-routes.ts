/** Schedules are set over the control socket only, so the shape of a rule over REST stays as specified (D70). */
import { Type } from 'typebox'
import type { TypedApp } from '../../core/area.ts'
import { PathId } from '../../core/schemas.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { scheduleRule, toRule } from './rules.ts'
import { isScheduled } from './schedule.ts'
import { ScheduleInput } from './schemas.ts'
import type { Row } from './tables.ts'

const Params = Type.Object({ id: PathId })

export function scheduleRoutes(app: TypedApp): void {
  app.put('/rules/:id/schedule', { schema: { params: Params, body: ScheduleInput } }, async (request, reply) => {
    const { id } = request.params
    return {
      status: 'updated',
      rule: withSchedule(await carryOut(request, reply, 'firewall', (tx) => scheduleRule(tx, id, request.body))),
    }
  })
  app.delete('/rules/:id/schedule', { schema: { params: Params } }, async (request, reply) => {
    const { id } = request.params
    return {
      status: 'updated',
      rule: withSchedule(await carryOut(request, reply, 'firewall', (tx) => scheduleRule(tx, id, undefined))),
    }
  })
}

/** A rule as REST shows it, and its schedule. */
export function withSchedule(row: Row) {
  const { scheduleFrom: from, scheduleTo: to, scheduleDaily: daily } = row
  return isScheduled(row) ? { ...toRule(row), schedule: { from, to, daily } } : toRule(row)
}
