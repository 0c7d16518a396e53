/** VIPs and backends as the wire shows them. */
import type { Db } from '../../core/area.ts'
import type { Balancer } from '../../dataplane/bpf/lb/balancer.ts'
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

/** How many connections a backend serves now. */
export type Active = (row: BackendRow) => number
export const NOBODY: Active = () => 0

export const countedBy =
  (balancer: Balancer): Active =>
  ({ vip, handle }) =>
    balancer.accelerated ? balancer.activeConnections(vip, handle) : 0

/** The same with the connections of this moment. */
export const live = ({ vip, backends }: Served, active: Active): LoadBalancer => ({
  ...plainVip(vip),
  backends: backends.map((row) => toBackend(row, active(row))),
})
