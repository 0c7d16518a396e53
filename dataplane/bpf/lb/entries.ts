/** What the load balancer is asked for. */

export const ALGORITHMS = ['round-robin', 'weighted', 'least-conn', 'source-hash', 'consistent-hash', 'maglev'] as const
export type Algorithm = (typeof ALGORITHMS)[number]

/** A virtual address and who serves it. */
export interface VipEntry {
  kind: 'vip'
  /** lb/vip/<id> */
  key: string
  /** The operator's; at most 64 ASCII characters. */
  id: string
  /** Canonical. */
  address: string
  /** 0: every port of the protocol, and backends have port 0 then. */
  port: number
  protocol: 'tcp' | 'udp'
  algorithm: Algorithm
  /** Backends answer clients themselves. */
  dsr: boolean
  /** Sorted by id. */
  backends: readonly VipBackend[]
  /** Observed entries only: the kernel does not hold all that the entry asks for. */
  damaged?: true
}

export interface VipBackend {
  id: string
  /** Canonical, of the family of the virtual address. */
  address: string
  /** 0 where the virtual address stands for every port. */
  port: number
  /** 0: nothing new. Round-robin and least-conn know no other difference. */
  weight: number
  /** `draining` and `down` serve what they have and get nothing new; UDP leaves one that is `down` at once. */
  state: 'up' | 'down' | 'draining'
}

export const isVip = (entry: { kind: string }): entry is VipEntry => entry.kind === 'vip'

/** Everything about an entry that the kernel must hold, as one comparable string. */
export function vipFingerprint({ id, address, port, protocol, algorithm, dsr, backends, damaged }: VipEntry): string {
  const served = backends.map((it) => [it.id, it.address, it.port, it.weight, it.state])
  return JSON.stringify([id, address, port, protocol, algorithm, dsr, served, damaged ?? false])
}

/** Whether two entries stand for the same traffic. */
export const sameFrontend = (one: VipEntry, other: VipEntry): boolean =>
  one.address === other.address && one.port === other.port && one.protocol === other.protocol
