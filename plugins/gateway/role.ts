/**
 * Which node has the VIP. Pure.
 *
 * Pairing does not exist yet: what the peer does is not known. So with a peer configured the node never takes the VIP by
 * itself, it takes it by the operator's order (failback). But holding is not taking: who has the VIP keeps it when a peer is
 * configured, when the agent restarts and when it is killed. It does not keep it over a boot of the machine, in which the
 * peer may have been told to take over.
 */
import type { Config } from '../../core/config.ts'
import type { RoleRow } from './tables.ts'
import { configuredVips, type Vip } from './vip.ts'

export interface Circumstances {
  vips: readonly Vip[]
  /** '' for none. */
  peer: string
  /** This boot of the machine. */
  boot: string
  /** Where the VIP belongs; '' while that is not known. */
  interface: string
}

export const circumstances = (config: Config, boot: string): Circumstances => ({
  vips: configuredVips(config),
  peer: config.text('gateway_peer'),
  boot,
  interface: config.text('gateway_interface') || config.text('uplink'),
})

/** Whether the node has the VIP now, given what it was when it was last looked at. */
export function holds(row: RoleRow | undefined, { vips, peer, boot }: Circumstances): boolean {
  if (vips.length === 0 || (row?.state === 'standby' && row.ordered)) return false
  return peer === '' || (row?.state === 'active' && row.boot === boot)
}

/** Where the VIP is, or would be; '' where that is not known. */
export const placeOf = (row: RoleRow | undefined, now: Circumstances): string => now.interface || row?.interface || ''

/** The row as it should be by now; undefined for none. */
export function settled(row: RoleRow | undefined, now: Circumstances): RoleRow | undefined {
  if (now.vips.length === 0) return undefined
  const active = holds(row, now)
  return {
    id: 1,
    state: active ? 'active' : 'standby',
    ordered: !active && (row?.ordered ?? false),
    boot: active ? now.boot : (row?.boot ?? ''),
    interface: placeOf(row, now),
  }
}
