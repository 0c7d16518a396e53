import { type Static, Type } from 'typebox'
import { InterfaceName, StringEnum } from '../../core/schemas.ts'

/** Numbers of tables, metrics and marks are 32 bits wide in the kernel. */
export const MAX_U32 = 0xffffffff

/** Addresses are read by the rules, so that the error can say which value is wrong; '' is as good as absent. */
const Text = Type.String({ maxLength: 64 })
const Address = Type.Optional(Text)
const Device = Type.Optional(Type.Union([Type.Literal(''), InterfaceName]))

export const RouteInput = Type.Object({
  destination: Text,
  gateway: Address,
  interface: Device,
  metric: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_U32 })),
  table: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_U32, description: '0: the main table' })),
})

/** `gateway` and `interface` are '' where there is none. */
export const Route = Type.Object({
  id: Type.Integer(),
  destination: Type.String(),
  gateway: Type.String(),
  interface: Type.String(),
  metric: Type.Integer({ description: 'lower wins; an IPv6 route without one has 1024' }),
  table: Type.Integer({ description: '0: the main table' }),
})
export const RouteQuery = Type.Object({
  table: Type.Optional(
    Type.String({
      title: 'the number of a routing table',
      pattern: '^(0|[1-9][0-9]{0,9})$',
      description: '0: the main table',
    }),
  ),
})
export const RouteList = Type.Object({ routes: Type.Array(Route) })
export const RouteCreated = Type.Object({ status: StringEnum(['created']), route: Route })
export const Deleted = Type.Object({ status: StringEnum(['deleted']), id: Type.Integer() })

export const RuleInput = Type.Object({
  priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
  from: Address,
  to: Address,
  fwmark: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_U32, description: '0: whatever the mark' })),
  iif: Device,
  oif: Device,
  table: Type.Integer({ minimum: 1, maximum: MAX_U32 }),
})

/** Matches that a rule does not have are '' and 0. */
export const Rule = Type.Object({
  id: Type.Integer(),
  priority: Type.Integer({ description: 'lower comes first' }),
  from: Type.String(),
  to: Type.String(),
  fwmark: Type.Integer(),
  iif: Type.String(),
  oif: Type.String(),
  table: Type.Integer(),
})
export const RuleList = Type.Object({ rules: Type.Array(Rule) })
export const RuleCreated = Type.Object({ status: StringEnum(['created']), rule: Rule })

export type RouteInput = Static<typeof RouteInput>
export type Route = Static<typeof Route>
export type RuleInput = Static<typeof RuleInput>
export type Rule = Static<typeof Rule>
