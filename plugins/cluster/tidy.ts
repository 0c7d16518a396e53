/** What falls to the leader now and then: to forget who never came, and codes that nobody asks about any more. */
import type { Cluster } from './cluster.ts'
import { forgetOld } from './codes.ts'
import { remove } from './join.ts'
import { MEMBERS, partsOf } from './keys.ts'
import type { MemberRecord } from './standing.ts'

/** An admitted node that has not come by then is not expected any more (D100), ms. */
const ADMISSION_MS = 3_600_000

export type Tidied = Pick<Cluster, 'context' | 'engine'>

/** @throws ApiError when the cluster does not take it now: it is tried again */
export async function tidy({ engine, context: { log, now } }: Tidied): Promise<void> {
  const standing = engine.standing()
  if (!standing?.isLeader || !standing.writable) return
  await forgetOld(engine.records, now())
  for (const { key, value } of await engine.records.list(MEMBERS)) {
    const [id = ''] = partsOf(key, MEMBERS)
    const { since } = JSON.parse(value) as MemberRecord
    const votes = standing.members.find((one) => one.id === id)?.voter === true
    if (votes || now().getTime() - Date.parse(since) < ADMISSION_MS) continue
    log.warn({ node: id, since }, 'an admitted node did not come within an hour: its admission is withdrawn')
    await remove({ engine }, id)
  }
}
