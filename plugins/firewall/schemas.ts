import { type Static, Type } from 'typebox'
import { FreeText, InterfaceName, PathId, StringEnum } from '../../core/schemas.ts'

/** Broadest first: the position is the rank (D66). */
export const LEVELS = ['global', 'bridge', 'vlan', 'private_network', 'mac', 'flow'] as const
export type Level = (typeof LEVELS)[number]

/** 0 stands for absent (D68). */
const OptionalPort = Type.Optional(Type.Integer({ minimum: 0, maximum: 65535 }))
const Text = Type.Optional(Type.String({ maxLength: 64 }))

/** What a client sends. Addresses and MAC are read by the rules, so that the error can say which value is wrong. */
export const RuleInput = Type.Object(
  {
    action: StringEnum(['accept', 'drop']),
    priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
    protocol: Type.Optional(StringEnum(['', 'tcp', 'udp', 'icmp'])),
    source_ip: Text,
    dest_ip: Text,
    source_port: OptionalPort,
    dest_port: OptionalPort,
    dest_port_max: OptionalPort,
    interface: Type.Optional(Type.Union([Type.Literal(''), InterfaceName])),
    mac: Text,
    level: Type.Optional(StringEnum(['', ...LEVELS, 'interface'])),
    comment: Type.Optional(FreeText),
    chain: Type.Optional(StringEnum(['', 'prerouting'])),
    stateful: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)

export const Rule = Type.Object({
  id: Type.Integer(),
  chain: Type.String(),
  priority: Type.Integer(),
  action: Type.String(),
  stateful: Type.Boolean(),
  protocol: Type.Optional(Type.String()),
  source_ip: Type.Optional(Type.String()),
  dest_ip: Type.Optional(Type.String()),
  source_port: Type.Optional(Type.Integer()),
  dest_port: Type.Optional(Type.Integer()),
  dest_port_max: Type.Optional(Type.Integer()),
  interface: Type.Optional(Type.String()),
  mac: Type.Optional(Type.String()),
  level: Type.Optional(Type.String()),
  comment: Type.Optional(Type.String()),
  not_enforced: Type.Optional(Type.Array(Type.Object({ field: Type.String(), detail: Type.String() }))),
  not_applied: Type.Optional(Type.Boolean()),
})

export const RuleList = Type.Object({ rules: Type.Array(Rule) })
export const RuleParams = Type.Object({ id: PathId })
export const RuleQuery = Type.Object({ chain: Type.Optional(Type.String({ maxLength: 64 })) })
export const RuleCreated = Type.Object({ status: StringEnum(['created']), rule: Rule })
export const RuleUpdated = Type.Object({ status: StringEnum(['updated']), rule: Rule })
export const RuleDeleted = Type.Object({ status: StringEnum(['deleted']), id: Type.Integer() })

const Action = StringEnum(['allow', 'deny'])
export const DefaultInput = Type.Object({ default_action: Action }, { additionalProperties: false })
export const Default = Type.Object({ default_action: Action })
export const DefaultUpdated = Type.Object({ status: StringEnum(['updated']), default_action: Action })

export const MAX_BATCH = 5000
/** Items are judged one by one, so that a bad one does not stop the others (D65). */
export const BatchInput = Type.Object(
  {
    rules: Type.Array(Type.Unknown(), { minItems: 1, maxItems: MAX_BATCH }),
    atomic: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)
const BatchResult = Type.Object({
  index: Type.Integer(),
  status: StringEnum(['created', 'failed']),
  rule: Type.Optional(Rule),
  code: Type.Optional(Type.Integer()),
  error: Type.Optional(Type.String()),
})
export const BatchOutcome = Type.Object({
  status: StringEnum(['completed', 'partial', 'failed']),
  created: Type.Integer(),
  failed: Type.Integer(),
  results: Type.Array(BatchResult),
})
export const BatchRefused = Type.Intersect([Type.Object({ error: Type.String() }), Type.Partial(BatchOutcome)])

/** From the control socket only (D70). */
export const ScheduleInput = Type.Object(
  {
    from: Type.String({ maxLength: 40 }),
    to: Type.String({ maxLength: 40 }),
    daily: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)

export type RuleInput = Static<typeof RuleInput>
export type Rule = Static<typeof Rule>
export type BatchResult = Static<typeof BatchResult>
export type BatchOutcome = Static<typeof BatchOutcome>
export type ScheduleInput = Static<typeof ScheduleInput>
