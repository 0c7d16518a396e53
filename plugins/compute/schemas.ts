import { type Static, Type } from 'typebox'
import { AddressText, except, StringEnum, Timestamp } from '../../core/schemas.ts'
import { AnyPort, Nic, NicInput } from '../networks/offers.ts'

/** Shows up as `used_by` of what the machine has. */
const MachineName = Type.String({
  title: '1 to 63 letters, digits, dots, hyphens and underscores, the first a letter or digit',
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$',
  ...except(),
})

export const MachineInput = Type.Object(
  { machine: MachineName, ...NicInput.properties },
  { additionalProperties: false },
)
export const MachineParams = Type.Object({ machine: Type.String({ maxLength: 256 }) })

/** `mac` says which NIC, where the machine has several; `port` is empty for none. */
export const NicPortInput = Type.Object(
  { port: AnyPort, mac: Type.Optional(AddressText) },
  { additionalProperties: false },
)

export const Machine = Type.Object({
  name: Type.String(),
  created_at: Timestamp,
  networks: Type.Array(Nic),
})

const LINK_STATES = ['connected', 'disconnected'] as const
const LinkState = StringEnum(LINK_STATES, {
  description: 'connected: frames of it were seen at a port of br-work that is there; nothing is known of its power',
})
const { port: _, ...shownToTenants } = Nic.properties
/** A NIC as its tenant sees it; figures since it was attached or the node booted. */
export const SeenNic = Type.Object({
  ...shownToTenants,
  state: LinkState,
  bytes_in: Type.Integer({ format: 'int64' }),
  bytes_out: Type.Integer({ format: 'int64' }),
  packets_in: Type.Integer({ format: 'int64' }),
  packets_out: Type.Integer({ format: 'int64' }),
})
export const SeenMachine = Type.Object({
  id: Type.String({ description: 'its name' }),
  created_at: Timestamp,
  state: LinkState,
  networks: Type.Array(SeenNic),
})

export const TASK_STATES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const

export const Task = Type.Object({
  id: Type.String(),
  kind: Type.String({ description: 'what is done to what: machine.attach' }),
  state: StringEnum(TASK_STATES),
  resource: Type.String({ description: 'path of what it is done to' }),
  progress: Type.Integer({ description: '0 to 100' }),
  created_at: Timestamp,
  started_at: Timestamp,
  finished_at: Type.Optional(Timestamp),
  error: Type.Optional(Type.String()),
  result: Type.Optional(Type.Unsafe<object>({ type: 'object', additionalProperties: true })),
  tenant_id: Type.Optional(Type.String()),
})
export const TaskOne = Type.Object({ task: Task })
export const TaskList = Type.Object({ tasks: Type.Array(Task) })
export const TaskParams = Type.Object({ id: Type.String({ maxLength: 256 }) })
export const TaskQuery = Type.Object({
  limit: Type.Optional(Type.String({ maxLength: 64, description: '1 to 500; 50 unless given' })),
  state: Type.Optional(StringEnum(TASK_STATES)),
})

export type Task = Static<typeof Task>
export type TaskState = Task['state']
export type Machine = Static<typeof Machine>
export type SeenNic = Static<typeof SeenNic>
export type SeenMachine = Static<typeof SeenMachine>
