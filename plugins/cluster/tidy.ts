/** What falls to the leader now and then, or to who acts for it: to forget who never came, and codes that nobody asks about any more. */
import type { Cluster } from './cluster.ts'
import { forgetOld } from './codes.ts'
import { absent, remove as dropped } from './engine.ts'
import { remove } from './join.ts'
import { CHANGE, MEMBERS, memberKey, partsOf, TRUST } from './keys.ts'
import { memberRecordIn } from './reading.ts'

/** An admitted node that has not come by then is not expected any more (D100), ms. */
const ADMISSION_MS = 3_600_000

export type Tidied = Pick<Cluster, 'context' | 'engine'>

/** @throws ApiError when the cluster does not take it now: it is tried again */
export async function tidy({ engine, context }: Tidied): Promise<void> {
  const { log, now } = context
  const standing = engine.standing()
  if (!standing?.acts || !standing.writable) return
  await forgetOld(engine.records, now())
  for (const { key, value } of await engine.records.list(MEMBERS)) {
    const [id = ''] = partsOf(key, MEMBERS)
    // What is no record is nobody's.
    const { since, joined } = memberRecordIn(value) ?? { since: new Date(0).toISOString(), joined: false }
    const votes = standing.members.find((one) => one.id === id)?.voter === true
    if (votes || now().getTime() - Date.parse(since) < ADMISSION_MS) continue
    if (joined) log.warn({ node: id }, 'a removal that an agent began and did not end is completed')
    else log.warn({ node: id, since }, 'an admitted node did not come within an hour: its admission is withdrawn')
    await remove({ engine, context }, id)
  }
  // Of one that left, who could not take it along.
  for (const prefix of [TRUST, CHANGE]) {
    for (const { key } of await engine.records.list(prefix)) {
      const [id = ''] = partsOf(key, prefix)
      if (standing.members.some((one) => one.id === id)) continue
      await engine.records.transact([absent(memberKey(id))], [dropped(key)])
    }
  }
}
