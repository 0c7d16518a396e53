import { Type } from 'typebox'
import { Task } from './schemas.ts'

/** Event type → its data. What a machine has is told of by the networks. */
export const events = {
  'task.created': Task,
  'task.updated': Task,
  'task.state_changed': Type.Object({ from: Type.String(), to: Type.String(), task: Task }),
}
