/** What only the local CLI sees: the ports of the workload bridge as the data plane has them. */
import { Type } from 'typebox'
import type { TypedApp } from '../../core/area.ts'

const Port = Type.Object({
  name: Type.String(),
  ifindex: Type.Integer(),
  role: Type.String(),
  net: Type.Integer({ description: 'number of the network in the data plane; 0: open' }),
})

export function control(app: TypedApp): void {
  const { plane } = app.agent
  app.get(
    '/ports',
    { config: { after: 'plane' }, schema: { response: { 200: Type.Object({ ports: Type.Array(Port) }) } } },
    () => ({
      ports: plane.ports.list(),
    }),
  )
}
