/** Every class that stands on our pairs, by its place. */
import type { ClassState } from '../netlink/tc.ts'
import { inSlices } from '../slices.ts'
import { placeOf, type Way } from './classes.ts'
import { SHAPE_SHARDS } from './numbers.ts'
import type { Queues } from './queues.ts'

export type Standing = ClassState & { shard: number; way: Way }

export async function standingClasses(queues: Queues): Promise<Map<string, Standing>> {
  const found = new Map<string, Standing>()
  for (let shard = 0; shard < SHAPE_SHARDS; shard++) {
    for (const { way, classes } of await queues.list(shard)) {
      await inSlices(classes, (it) => {
        found.set(placeOf({ shard, way, minor: it.minor }), { ...it, shard, way })
      })
    }
  }
  return found
}
