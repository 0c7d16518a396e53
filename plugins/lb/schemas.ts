import { type Static, Type } from 'typebox'
import { AddressText, Deleted, Id, Printable, StringEnum } from '../../core/schemas.ts'

const ALGORITHMS = ['round-robin', 'least-conn', 'source-hash', 'weighted', 'maglev', 'consistent-hash'] as const
const PROTOCOLS = ['tcp', 'udp'] as const
const CHECKS = ['', 'tcp', 'http'] as const
export type Algorithm = (typeof ALGORITHMS)[number]
export type Protocol = (typeof PROTOCOLS)[number]
export type CheckType = (typeof CHECKS)[number]

/** 0 is every port, or for a backend the one of the frontend. */
const PortOrNone = Type.Integer({ minimum: 0, maximum: 65_535 })
const Weight = Type.Integer({ minimum: 0, maximum: 65_535, description: '0: gets no new connections' })
const Seconds = Type.Integer({ minimum: 1, maximum: 3600 })
const Threshold = Type.Integer({ minimum: 1, maximum: 100, description: 'results in a row, both ways' })
const CheckKind = StringEnum(CHECKS, { description: 'empty: no check' })

export const HealthCheckInput = Type.Object({
  type: Type.Optional(CheckKind),
  interval_sec: Type.Optional(Seconds),
  timeout_sec: Type.Optional(Seconds),
  threshold: Type.Optional(Threshold),
  http_path: Type.Optional(Printable(255)),
})
export const VipInput = Type.Object({
  id: Id,
  frontend_ip: AddressText,
  frontend_port: Type.Optional(PortOrNone),
  protocol: Type.Optional(StringEnum(PROTOCOLS)),
  algorithm: StringEnum(ALGORITHMS),
  dsr_enabled: Type.Optional(Type.Boolean()),
  health_check: Type.Optional(HealthCheckInput),
})
export const BackendInput = Type.Object({
  id: Id,
  ip: AddressText,
  port: Type.Optional(PortOrNone),
  weight: Type.Optional(Weight),
})
export const HealthInput = Type.Object({ healthy: Type.Boolean() })

export const HealthCheck = Type.Object({
  type: CheckKind,
  interval_sec: Seconds,
  timeout_sec: Seconds,
  threshold: Threshold,
  http_path: Type.String(),
})
export const Backend = Type.Object({
  id: Type.String(),
  ip: Type.String(),
  port: PortOrNone,
  weight: Weight,
  healthy: Type.Boolean(),
  active_conns: Type.Integer({ description: 'connections that it serves now' }),
})
export const LoadBalancer = Type.Object({
  id: Type.String(),
  frontend_ip: Type.String(),
  frontend_port: PortOrNone,
  protocol: StringEnum(PROTOCOLS),
  algorithm: StringEnum(ALGORITHMS),
  dsr_enabled: Type.Boolean({ description: 'backends answer clients directly' }),
  health_check: HealthCheck,
  not_enforced: Type.Optional(
    Type.Array(Type.Object({ field: Type.String(), detail: Type.String() }), {
      description: 'what this node cannot do since it was made; the VIP refuses connections meanwhile',
    }),
  ),
  backends: Type.Array(Backend),
})
export const LoadBalancerList = Type.Object({ load_balancers: Type.Array(LoadBalancer) })
export const OneLoadBalancer = Type.Object({ load_balancer: LoadBalancer })
export const LoadBalancerCreated = Type.Object({ status: StringEnum(['created']), load_balancer: LoadBalancer })
export const LoadBalancerDeleted = Deleted(Type.String())

const named = { vip_id: Type.String(), backend_id: Type.String() }
export const BackendAdded = Type.Object({ status: StringEnum(['added']), ...named })
export const BackendRemoved = Type.Object({ status: StringEnum(['removed']), ...named })
export const HealthSet = Type.Object({ status: StringEnum(['updated']), ...named, healthy: Type.Boolean() })

export type VipInput = Static<typeof VipInput>
export type HealthCheckInput = Static<typeof HealthCheckInput>
export type BackendInput = Static<typeof BackendInput>
export type Backend = Static<typeof Backend>
export type LoadBalancer = Static<typeof LoadBalancer>
