/** Licence marks as rows: what a node remembers of time so that a clock set back gains nothing. */
import { inArray } from 'drizzle-orm'
import type { Db } from '../area.ts'
import type { LicenceMarks } from '../licence/marks.ts'
import { marks } from './tables.ts'

const NAMES = {
  highWater: 'license_high_water',
  hardwareMismatchSince: 'license_hardware_mismatch_since',
  evaluationUsedAt: 'license_evaluation_used_at',
} as const
type MarkName = keyof typeof NAMES
const KEYS = Object.keys(NAMES) as MarkName[]

export function loadMarks(read: Db): LicenceMarks {
  const rows = read
    .select()
    .from(marks)
    .where(inArray(marks.name, Object.values(NAMES)))
    .all()
  const byName = new Map(rows.map(({ name, value }) => [name, new Date(value)]))
  return Object.fromEntries(KEYS.map((key) => [key, byName.get(NAMES[key])]))
}

/** Call it while no mutation runs: the statements commit by themselves. */
export function storeMarks(write: Db, values: LicenceMarks): void {
  write.transaction((tx) => {
    tx.delete(marks)
      .where(inArray(marks.name, Object.values(NAMES)))
      .run()
    const rows = KEYS.flatMap((key) => {
      const value = values[key]?.toISOString()
      return value === undefined ? [] : [{ name: NAMES[key], value }]
    })
    if (rows.length > 0) tx.insert(marks).values(rows).run()
  })
}
