import { prepared } from '../../core/state/prepared.ts'
import { role } from './tables.ts'

export const queries = prepared((db) => ({
  role: db.select().from(role).prepare(),
}))
