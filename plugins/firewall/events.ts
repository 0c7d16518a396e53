import { Type } from 'typebox'
import { Default, Rule } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'rule.created': Rule,
  'rule.updated': Type.Intersect([Rule, Type.Object({ replaces: Type.Optional(Type.Integer()) })]),
  'rule.deleted': Type.Object({ id: Type.Integer() }),
  'default_action.updated': Type.Intersect([Default, Type.Object({ from: Type.String() })]),
}
