/** Many notes of changes → one change a row: as it was before the first, as it is after the last. Pure. */
import { type Collection, goesWith, type Row, type RowChange } from '../../replication.ts'
import { keyOf, pick, valuesOf } from './table.ts'

/** A row as a statement left it, by the columns that are replicated; undefined: there was, or is, no such row. */
export interface Noted {
  before: Row | undefined
  after: Row | undefined
}

export interface Fold {
  /** In the order in which they happened; notes of a collection after those of what it rests on. */
  add(collection: string, note: Noted): void
  /** As all members read them, in the order of the collections; rows that are as they were are left out. */
  changes(): RowChange[]
}

export function openFold(collections: ReadonlyMap<string, Collection>, self: string): Fold {
  const folded = new Map<Collection, Map<string, Noted>>()

  function note(collection: Collection, row: Row, end: Partial<Noted>): void {
    if (goesWithParent(collection, row)) return
    const rows = folded.get(collection) ?? new Map<string, Noted>()
    folded.set(collection, rows)
    const key = keyOf(collection, row)
    const known = rows.get(key)
    // Whatever was first told of a row tells how it was.
    if (known) known.after = end.after
    else rows.set(key, { before: end.before, after: end.after })
  }

  /** Whether what it belongs to is gone, and was there before. */
  function goesWithParent(collection: Collection, row: Row): boolean {
    return (collection.parents ?? []).some((parent) => {
      const of = collections.get(parent.collection)
      if (of === undefined || !goesWith(collection, parent)) return false
      const known = folded.get(of)?.get(JSON.stringify(valuesOf(row, parent.columns)))
      return known?.before !== undefined && known.after === undefined
    })
  }

  const outward = ({ columns, outward: told }: Collection, row: Row): Row =>
    told ? pick(told(row, self), columns) : row

  return {
    add(name, { before, after }) {
      const collection = collections.get(name)
      if (collection === undefined) return
      const same = before && after && keyOf(collection, before) === keyOf(collection, after)
      if (same) note(collection, before, { before, after })
      else {
        if (before) note(collection, before, { before })
        if (after) note(collection, after, { after })
      }
    },
    changes() {
      const changes: RowChange[] = []
      for (const [collection, rows] of folded) {
        for (const noted of rows.values()) {
          const before = noted.before && outward(collection, noted.before)
          const after = noted.after && outward(collection, noted.after)
          if (before === undefined && after === undefined) continue
          const same = before && after && collection.columns.every((column) => before[column] === after[column])
          if (!same) changes.push({ collection, ...(before && { before }), ...(after && { after }) })
        }
      }
      return changes
    },
  }
}
