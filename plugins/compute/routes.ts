/** The machine registry over the control socket: what runs machines on this node says here which of them has what. */
import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Rule, TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { queries } from './queries.ts'
import { attachMachine, changeMachinePort, detachMachine, toMachine } from './rules.ts'
import { type Machine, MachineInput, MachineParams, NicPortInput } from './schemas.ts'
import { withTask } from './task-routes.ts'
import { recordTask } from './task-rules.ts'

/** What changes is what networks have. */
const AREA = 'networks'

export function control(app: TypedApp): void {
  const { config, now, store } = app.agent
  app.get('/machines', (_request, reply) =>
    sendList<Machine>(reply, store, {
      key: 'machines',
      page: (db, last) =>
        queries(db)
          .page.all({ after: last?.name ?? '' })
          .map((row) => toMachine(db, row)),
      view: (machine) => machine,
    }),
  )
  app.post('/machines', { schema: { body: MachineInput } }, (request, reply) => {
    const { machine, ...nic } = request.body
    const at = now().toISOString()
    return operation(request, reply, 'machine.attach', machine, (tx) => attachMachine(tx, machine, nic, at))
  })
  app.put('/machines/:machine/port', { schema: { params: MachineParams, body: NicPortInput } }, (request, reply) => {
    const { machine } = request.params
    return operation(request, reply, 'machine.port', machine, (tx) => changeMachinePort(tx, machine, request.body))
  })
  app.delete('/machines/:machine', { schema: { params: MachineParams } }, (request, reply) => {
    const { machine } = request.params
    return operation(request, reply, 'machine.detach', machine, (tx) => detachMachine(tx, machine))
  })

  /** Carries out a change of a machine, which is done when it is answered, and records it as a task. */
  async function operation<T extends object>(
    request: FastifyRequest,
    reply: FastifyReply,
    kind: string,
    machine: string,
    rule: Rule<T>,
  ): Promise<T & { task: string }> {
    const draft = {
      id: `task-${randomBytes(6).toString('hex')}`,
      kind,
      resource: `/control/v1/compute/machines/${machine}`,
    }
    const ending = { at: now().toISOString(), keep: config.int('max_tasks') }
    const result = await carryOut(request, reply, AREA, async (tx) => {
      const change = await rule(tx)
      return { ...change, events: [...change.events, ...recordTask(tx, draft, ending).events] }
    })
    return withTask(reply, result, draft.id)
  }
}
