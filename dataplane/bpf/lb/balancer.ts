/** What the load balancer tells besides carrying out entries. */

export interface Balancer {
  /** Whether the eBPF programs balance; false: nft does (fallback.ts). */
  readonly accelerated: boolean
  /** Connections that a backend serves now: TCP ones that are established, UDP ones that are not idle. 0 unless accelerated. */
  activeConnections(vip: string, backend: string): number
  /** One line for people. */
  detail(): string
}

/** nft, and why it is not the programs. It knows connections only as conntrack does. */
export const byNft = (why: string): Balancer => ({
  accelerated: false,
  activeConnections: () => 0,
  detail: () => `nft (${why})`,
})
