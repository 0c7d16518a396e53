/** Rows of the model: a collection for each thing that a collection can have, few keys, and a rule that changes them at random. */
import { type Collection, goesWith, type Row, type RowChange } from '../../core/replication.ts'
import { childPrefix, parentKey, readRowKey, rowKey, uniqueKeys } from '../../plugins/cluster/keys.ts'

const NAMED: Collection = { name: 'named', key: ['id'], columns: ['id', 'by', 'name'], unique: [['name']] }
const PARENTS: Collection = { name: 'parents', key: ['id'], columns: ['id', 'by'] }
const CHILDREN: Collection = {
  name: 'children',
  key: ['parent', 'id'],
  columns: ['parent', 'id', 'by'],
  parents: [{ collection: 'parents', columns: ['parent'] }],
}
const COUNTED: Collection = {
  name: 'counted',
  key: ['id'],
  columns: ['id', 'by', 'of'],
  serial: ({ of }) => [`of/${of}`],
}

export const collections: ReadonlyMap<string, Collection> = new Map(
  [NAMED, PARENTS, CHILDREN, COUNTED].map((collection) => [collection.name, collection]),
)

/** By their keys in etcd. */
export type Rows = Map<string, Row>

/** A row cannot come, because another that stays has what no two can share. */
export class Clash extends Error {}

export const collectionOf = (key: string): Collection => {
  const found = collections.get(readRowKey(key).collection)
  if (found === undefined) throw new TypeError(`no collection of ${key}`)
  return found
}

const isOf = (rows: Rows, { name }: Collection) => [...rows].filter(([key]) => collectionOf(key).name === name)

/** One change of what a store holds, made `by` somebody; none where there is nothing to change. */
export function changeOf(rows: Rows, by: string, random: () => number): RowChange[] {
  const few = (count: number) => Math.floor(random() * count)
  const toggled = (collection: Collection, row: Row, often = 1): RowChange[] => {
    const before = rows.get(rowKey(collection, row))
    if (before && random() < often) return [{ collection, before }]
    return [{ collection, ...(before && { before }), after: row }]
  }
  const kind = random()
  if (kind < 0.3) {
    const row = { id: few(2), by, name: ['', 'x', 'y'][few(3)] ?? '' }
    const key = rowKey(NAMED, row)
    const taken = row.name !== '' && isOf(rows, NAMED).some(([other, { name }]) => other !== key && name === row.name)
    return taken && !rows.has(key) ? [] : toggled(NAMED, row, taken ? 1 : 0.6)
  }
  if (kind < 0.6) return toggled(PARENTS, { id: 0, by }, 0.7)
  if (kind < 0.8) {
    const parents = isOf(rows, PARENTS)
    const parent = parents[few(parents.length)]?.[1].id
    return parent === undefined ? [] : toggled(CHILDREN, { parent, id: few(2), by })
  }
  return toggled(COUNTED, { id: few(2), by, of: few(2) })
}

/** Writes changes into rows as `applyRows` does: first what goes, with what goes with it, then what comes. @throws Clash */
export function write(rows: Rows, changes: readonly Pick<RowChange, 'collection' | 'before' | 'after'>[]): void {
  for (const { collection, before, after } of changes) {
    if (after || before === undefined) continue
    for (const child of collections.values()) {
      if (!child.parents?.some((parent) => parent.collection === collection.name && goesWith(child, parent))) continue
      const prefix = childPrefix(
        child.name,
        collection.key.map((column) => before[column] ?? null),
      )
      for (const key of rows.keys()) if (key.startsWith(prefix)) rows.delete(key)
    }
    rows.delete(rowKey(collection, before))
  }
  const come = changes.flatMap(({ collection, after }) => (after ? [{ collection, row: after }] : []))
  for (const { collection, row } of come) rows.delete(rowKey(collection, row))
  for (const { collection, row } of come) {
    const shares = new Set(uniqueKeys(collection, row))
    const clashes = ([, other]: [string, Row]) => uniqueKeys(collection, other).some((share) => shares.has(share))
    if (shares.size > 0 && isOf(rows, collection).some(clashes)) throw new Clash()
    rows.set(rowKey(collection, row), row)
  }
}

/** Rows without the one that they go with. */
export const orphans = (rows: Rows): string[] =>
  [...rows].flatMap(([key, row]) => {
    const parents = (collectionOf(key).parents ?? []).map((parent) => parentKey(row, parent))
    return parents.every((parent) => parent === undefined || rows.has(parent)) ? [] : [key]
  })
