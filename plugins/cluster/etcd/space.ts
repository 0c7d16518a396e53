/**
 * Room in etcd's database: what is compacted away stays in the file until that is rewritten, during which the member answers
 * nobody. A database that reaches its quota takes no change any more (alarm NOSPACE) until there is room and the alarm is taken off.
 */

import { QUOTA_BYTES } from './child.ts'
import type { Etcd } from './client.ts'
import type { Status } from './words.ts'

const MEGABYTE = 1 << 20
const [SMALLEST, TIMES] = [64 * MEGABYTE, 2]
/** Revisions that a full database keeps, for members that were away for a moment. */
const KEPT_REVISIONS = 1000
/** Looks that the leader waits for the others to be done. */
const LEADER_WAITS = 10
const LEADER_WAITS_FULL = 2
/** Of the quota: with more in use the alarm would only come back. */
const ENOUGH = 0.9

export interface Space {
  /** To be called once a minute. @throws EtcdError */
  look(status: Status): Promise<void>
}

const isFull = ({ errors }: Status): boolean => errors.some((error) => error.includes('NOSPACE'))

/** `alone` runs work while no other member does such work. */
export function openSpace(etcd: Etcd, alone: (work: () => Promise<void>) => Promise<void>, quota = QUOTA_BYTES): Space {
  let waited = 0
  return {
    async look(status) {
      const [size, used] = [Number(status.dbSize), Number(status.dbSizeInUse)]
      const [full, leads] = [isFull(status), status.leader === status.header.member_id]
      // Whoever finds it full: the leader's agent may be away.
      if (full) {
        const upTo = Number(status.header.revision) - KEPT_REVISIONS
        // Refused when that was compacted before.
        if (upTo > 0) await etcd.compact(upTo).catch(() => {})
      }
      const wasteful = full || (size > SMALLEST && size > TIMES * used)
      waited = wasteful ? waited + 1 : 0
      if (!wasteful || (leads && waited <= (full ? LEADER_WAITS_FULL : LEADER_WAITS))) return
      waited = 0
      // A full one does not take the lock either.
      await (full ? etcd.defragment() : alone(() => etcd.defragment()))
      if (full) await takeOff(status.header.member_id)
    },
  }

  async function takeOff(self: string): Promise<void> {
    const { dbSize } = await etcd.status()
    if (Number(dbSize) > ENOUGH * quota) return
    for (const alarm of await etcd.alarms())
      if (alarm.memberID === self && alarm.alarm === 'NOSPACE') await etcd.disarm(alarm)
  }
}
