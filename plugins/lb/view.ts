/** VIPs and backends as the wire shows them. */
import type { AreaContext, Db } from '../../core/area.ts'
import { beyondNft } from '../../dataplane/bpf/lb/fallback.ts'
import { claimedBy } from './evict.ts'
import { PROTOCOLS, tally } from './flows.ts'
import { queries } from './queries.ts'
import type { Backend, LoadBalancer } from './schemas.ts'
import type { BackendRow, VipRow } from './tables.ts'

export interface Served {
  vip: VipRow
  /** Those that do not drain, by id. */
  backends: BackendRow[]
}

export const servedBy = (db: Db, vip: VipRow): Served => ({ vip, backends: queries(db).liveOf.all({ vip: vip.id }) })

const plainBackend = ({ id, ip, port, weight, state }: BackendRow): Omit<Backend, 'active_conns'> => ({
  id,
  ip,
  port,
  weight,
  healthy: state === 'up',
})

export const toBackend = (row: BackendRow, active = 0): Backend => ({ ...plainBackend(row), active_conns: active })

const plainVip = (row: VipRow): Omit<LoadBalancer, 'backends'> => ({
  id: row.id,
  frontend_ip: row.address,
  frontend_port: row.port,
  protocol: row.protocol,
  algorithm: row.algorithm,
  dsr_enabled: row.dsr,
  health_check: {
    type: row.checkType,
    interval_sec: row.checkInterval,
    timeout_sec: row.checkTimeout,
    threshold: row.checkThreshold,
    http_path: row.checkPath,
  },
})

/** What is stored of it: what an ETag stands for. Connections come and go without anybody's change. */
export const stored = ({ vip, backends }: Served) => ({
  load_balancer: { ...plainVip(vip), backends: backends.map(plainBackend) },
})

/** What is measured of a VIP. */
export interface Measured {
  /** How many connections a backend of the VIP serves now. */
  active(vip: VipRow, row: BackendRow): number
  /** nft balances. */
  byNft: boolean
}
export const NOTHING_YET: Measured = { active: () => 0, byNft: false }

/**
 * As the programs count, or conntrack does where nft balances: all that there is, or what goes to one VIP. Rejects when the
 * kernel does not tell.
 */
export async function measure({ plane, read }: Pick<AreaContext, 'plane' | 'read'>, vip?: VipRow): Promise<Measured> {
  const { balancer, connections } = plane
  if (balancer.accelerated) {
    return { active: ({ id }, { handle }) => balancer.activeConnections(id, handle), byNft: false }
  }
  const to = vip && { dst: vip.address, protocol: PROTOCOLS[vip.protocol] }
  const served = await tally(await connections.list({ own: true, ...(to && { to }) }), claimedBy(read))
  return { active: served, byNft: true }
}

/** The same with the connections of this moment, and with what cannot be carried out here. */
export function live({ vip, backends }: Served, { active, byNft }: Measured): LoadBalancer {
  const beyond = byNft ? beyondNft(vip) : undefined
  return {
    ...plainVip(vip),
    ...(beyond && { not_enforced: [beyond] }),
    backends: backends.map((row) => toBackend(row, active(vip, row))),
  }
}
