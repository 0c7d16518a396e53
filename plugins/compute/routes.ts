/** The machine registry over the control socket: what runs machines on this node says here which of them has what. */
import type { TypedApp } from '../../core/area.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { queries } from './queries.ts'
import { attachMachine, detachMachine, toMachine } from './rules.ts'
import { type Machine, MachineInput, MachineParams } from './schemas.ts'

/** What changes is what networks have. */
const AREA = 'networks'

export function control(app: TypedApp): void {
  const { now, store } = app.agent
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
    return carryOut(request, reply, AREA, (tx) => attachMachine(tx, machine, nic, at))
  })
  app.delete('/machines/:machine', { schema: { params: MachineParams } }, (request, reply) =>
    carryOut(request, reply, AREA, (tx) => detachMachine(tx, request.params.machine)),
  )
}
