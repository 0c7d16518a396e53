import { Type } from 'typebox'
import { Route, Rule } from './schemas.ts'

const Gone = Type.Object({ id: Type.Integer() })

/** Event type → its data. */
export const events = {
  'route.created': Route,
  'route.deleted': Gone,
  'policy_rule.created': Rule,
  'policy_rule.deleted': Gone,
}
