/**
 * That this node is there: a key on a lease, which goes when the node has said nothing for its length. When the leader itself
 * falls silent that takes up to eight seconds, because a new leader begins all leases anew.
 */
import type { Etcd } from './etcd/client.ts'
import { put } from './etcd/words.ts'
import { liveKey } from './keys.ts'

const TTL_S = 5

export interface Presence {
  /** Says it once more; to be called at least once a second. Never rejects. */
  beat(): Promise<void>
  /** The key goes at once, when that can still be said. */
  close(): Promise<void>
}

export function openPresence(etcd: Etcd, node: string): Presence {
  let held: { lease: string; beats: ReturnType<Etcd['keepAlive']> } | undefined
  let asking = false
  return {
    async beat() {
      if (held) return held.beats.beat()
      if (asking) return
      asking = true
      try {
        const lease = await etcd.grant(TTL_S)
        await etcd.txn([], [put(liveKey(node), new Date().toISOString(), lease)])
        const lost = () => {
          held = undefined
        }
        held = { lease, beats: etcd.keepAlive(lease, lost) }
      } catch {
        // No majority: the next beat tries again.
      } finally {
        asking = false
      }
    },
    async close() {
      const { lease, beats } = held ?? {}
      held = undefined
      beats?.stop()
      if (lease !== undefined) await etcd.revoke(lease).catch(() => {})
    },
  }
}
