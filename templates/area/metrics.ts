import { count } from 'drizzle-orm'
import type { AreaMetric } from '../../core/area.ts'
import { things } from './tables.ts'

/** Read at every scrape: counts that an index answers. */
export const metrics: readonly AreaMetric[] = [
  {
    name: 'things',
    help: 'Things that are stored.',
    type: 'gauge',
    read: ({ read }) => [{ value: read.select({ all: count() }).from(things).get()?.all ?? 0 }],
  },
]
