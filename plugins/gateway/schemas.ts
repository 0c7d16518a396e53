import { type Static, Type } from 'typebox'
import { StringEnum } from '../../core/schemas.ts'

const State = StringEnum(['active', 'standby'])

export const GatewayStatus = Type.Object({
  local_state: State,
  peer_state: StringEnum(['active', 'standby', 'solo'], { description: 'solo: nodes cannot be paired yet' }),
  vip: Type.String({ description: "as configured; '' without one" }),
  last_heartbeat: Type.Optional(Type.String({ description: 'RFC 3339, UTC; absent while the peer was never heard' })),
  uptime: Type.String(),
  active_conns: Type.Integer({ description: 'connections that this node tracks' }),
  peer_addr: Type.String(),
  heartbeat: StringEnum(['running', 'not running', 'not needed']),
})
export const FailedOver = Type.Object({ status: StringEnum(['failover_triggered']) })
export const FailedBack = Type.Object({ status: StringEnum(['failback_triggered']) })
export const StateChanged = Type.Object({ from: State, to: State, vip: Type.String() })

export type GatewayStatus = Static<typeof GatewayStatus>
