/** What the load balancer tells besides carrying out entries. */

export interface Balancer {
  /** Whether the eBPF programs balance; false: nft does (least-conn is not to be had then). */
  readonly accelerated: boolean
  /** Connections that a backend serves now: TCP ones that are established, UDP ones that are not idle. */
  activeConnections(vip: string, backend: string): number
  /** One line for people. */
  detail(): string
}

/** A node whose kernel has no place for the programs. */
export const NO_BALANCER: Balancer = {
  accelerated: false,
  activeConnections: () => 0,
  detail: () => 'nft translates what goes to virtual addresses',
}
