/** What areas may declare of the rows that all members of a cluster hold. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { buildAgent } from '../../test/build.ts'
import type { LoadedArea } from '../area.ts'
import { type Collection, collectionsOf, goesWith } from '../replication.ts'

const PLUGINS = join(import.meta.dirname, '..', '..', 'plugins')
const one = (fields: Partial<Collection> = {}): Collection => ({
  name: 'a_rows',
  key: ['id'],
  columns: ['id', 'name'],
  ...fields,
})
const two = (fields: Partial<Collection> = {}) => one({ name: 'b_rows', columns: ['id', 'of', 'name'], ...fields })
const order = (...replicates: Collection[]) => [...collectionsOf([{ name: 'a', replicates }]).keys()]

t.test('collections come after what they rest on, and must be able to hold', async (t) => {
  const parents = [{ collection: 'a_rows', columns: ['of'] }]
  t.same(order(two({ parents }), one()), ['a_rows', 'b_rows'])
  t.same(order(two({ parents })), ['b_rows'], 'the area of the parents may be off')
  t.throws(() => order(one(), one()), { message: 'area a: collection a_rows is there already' })
  t.throws(() => order(one({ key: ['number'] })), { message: 'area a: collection a_rows does not replicate number' })
  t.throws(() => order(one({ unique: [['mac']] })), { message: 'area a: collection a_rows does not replicate mac' })
  t.throws(() => order(one({ parents: [{ collection: 'a_rows', columns: ['id'] }] })), { message: /rests on itself/ })
  const child = two({ key: ['of', 'id'], parents, unique: [['name']] })
  t.throws(() => order(one(), child), { message: /goes with its parent: unique is not for it/ })
  t.ok(parents.every((parent) => goesWith(child, parent) && !goesWith(two(), parent)))
})

t.test('what the areas declare can be written by key, and read', async (t) => {
  const names = readdirSync(PLUGINS, { withFileTypes: true }).flatMap((it) => (it.isDirectory() ? [it.name] : []))
  const areas: LoadedArea[] = []
  for (const name of names) areas.push((await import(`../../plugins/${name}/index.js`)).default.area)
  const { read } = (await buildAgent(t)).agent.store
  const collections = [...collectionsOf(areas).values()]
  t.ok(collections.length >= 7, 'control')
  for (const { name, key, columns, where = '1' } of collections) {
    const table = read.all<{ name: string; pk: number; notnull: number; dflt_value: unknown; type: string }>(
      sql.raw(`select * from pragma_table_info('${name}')`),
    )
    const known = table.map((column) => column.name)
    t.same(
      columns.filter((column) => !known.includes(column)),
      [],
      `${name} has its columns`,
    )
    const own = table.filter((column) => !columns.includes(column.name))
    const needed = own.filter((it) => it.notnull && it.dflt_value === null && !(it.pk && it.type === 'INTEGER'))
    t.same(needed, [], `${name}: what is the node’s own has a default`)
    const unique = read.all<{ name: string; partial: number }>(
      sql.raw(`select name, partial from pragma_index_list('${name}') where "unique" = 1`),
    )
    const columnsOf = (index: string) =>
      read.all<{ name: string }>(sql.raw(`select name from pragma_index_info('${index}')`)).map((it) => it.name)
    const keys = unique.filter(({ partial }) => partial === 0).map((index) => columnsOf(index.name))
    const primary = table.filter(({ pk }) => pk > 0).map((column) => column.name)
    const same = (a: readonly string[]) => JSON.stringify([...a].sort()) === JSON.stringify([...key].sort())
    t.ok([...keys, primary].some(same), `${name}: no two rows have one key`)
    t.same(read.all(sql.raw(`select * from "${name}" as row where ${where}`)), [])
  }
})
