/** What a call with a key and a change cost does not depend on how much there is: every statement finds its rows by an index. */
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import { queries } from '../queries.ts'

/** Counts of all, by the smallest index. */
const WHOLE = new Set(['tenantCount', 'keyCount'])

t.test('statements search, and none sorts', async (t) => {
  const store = openStore(scratch(t))
  t.teardown(() => store.close())
  store.migrate('tenants', join(import.meta.dirname, '..'))
  const all: Record<string, { getQuery(): { sql: string } }> = queries(store.read)
  for (const [name, statement] of Object.entries(all)) {
    const text = statement.getQuery().sql.replaceAll('?', '1')
    const rows = store.read.all<{ detail: string }>(sql.raw(`explain query plan ${text}`))
    const plan = rows.map(({ detail }) => detail).join('; ')
    t.notMatch(plan, /TEMP B-TREE/, `${name}: ${plan}`)
    if (!WHOLE.has(name)) t.notMatch(plan, /\bSCAN (?!CONSTANT)/, `${name}: ${plan}`)
  }
})
