import type { Db } from '../area.ts'

/**
 * Prepares statements once per connection: `const q = prepared((db) => ({ byId: db.select()….prepare() }))`, then
 * `q(db).byId.get({...})`. Building a query costs twenty times what running it does.
 */
export function prepared<T>(build: (db: Db) => T): (db: Db) => T {
  const known = new WeakMap<Db, T>()
  return (db) => {
    const found = known.get(db)
    if (found !== undefined) return found
    const built = build(db)
    known.set(db, built)
    return built
  }
}
