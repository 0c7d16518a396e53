/** What a change costs does not depend on how much there is: every statement of it finds its rows by an index. */
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import { placeQueries } from '../place-queries.ts'
import { queries } from '../queries.ts'
import { routedQueries } from '../routed-queries.ts'

/** Read everything on purpose: few rows, or pages of all. */
const WHOLE = new Set([
  'networkCount',
  'anyGateway',
  'rangeCount',
  'allRanges',
  'allNetworks',
  'anyClaim',
  'reservedEndpoints',
  'reservedCount',
  'tenantsBound',
])

t.test('statements search, and none sorts', async (t) => {
  const store = openStore(scratch(t))
  t.teardown(() => store.close())
  store.migrate('networks', join(import.meta.dirname, '..'))
  const db = store.read
  const all: Record<string, { getQuery(): { sql: string } }> = {
    ...queries(db),
    ...routedQueries(db),
    ...placeQueries(db),
  }
  for (const [name, statement] of Object.entries(all)) {
    const text = statement.getQuery().sql.replaceAll('?', '1')
    const rows = db.all<{ detail: string }>(sql.raw(`explain query plan ${text}`))
    const plan = rows.map(({ detail }) => detail).join('; ')
    t.notMatch(plan, /TEMP B-TREE FOR ORDER/, `${name}: ${plan}`)
    if (!WHOLE.has(name)) t.notMatch(plan, /\bSCAN (?!CONSTANT)/, `${name}: ${plan}`)
  }
  t.ok(Object.keys(all).length > 40)
})
