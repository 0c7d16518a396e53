/** What an answer says of a thing that was made as asked, and may not do what one expects of it: as other areas know. */
import { Type } from 'typebox'
import type { Db } from './area.ts'
import type { AreaStates } from './areas.ts'

export const Warnings = Type.Optional(
  Type.Array(Type.String(), {
    description: 'what may surprise, and what to do about it; absent where there is nothing',
  }),
)

/** `{ warnings }` of the areas that are on and know something of the thing `id` of `area`, else nothing; to be spread into an answer. */
export function warningsOn(
  { warnings }: Pick<AreaStates, 'warnings'>,
  db: Db,
  area: string,
  id: string,
): { warnings?: string[] } {
  const all = warnings(db, area, id)
  return all.length > 0 ? { warnings: all } : {}
}
