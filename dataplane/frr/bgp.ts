/** What areas may ask of the BGP speaker beside what they desire of it. */

export const BGP_STATES = ['Idle', 'Connect', 'Active', 'OpenSent', 'OpenConfirm', 'Established'] as const
/** RFC 4271 §8.2.2. */
export type BgpState = (typeof BGP_STATES)[number]

export const BFD_STATES = ['disabled', 'admin_down', 'down', 'init', 'up'] as const
/** RFC 5880 §6.2. */
export type BfdState = (typeof BFD_STATES)[number]

export interface NeighborState {
  address: string
  state: BgpState
  messagesIn: number
  messagesOut: number
  /** Unix time in seconds, while the session is established. */
  establishedAt?: number | undefined
  bfd: BfdState
  /** The peer has announced the capability (RFC 4724). */
  peerGracefulRestart: boolean
}

/** A state of a session, and since when. */
export interface SessionSeen {
  address: string
  state: BgpState
  /** Unix ms. */
  at: number
}

export interface BgpRoute {
  prefix: string
  nextHop: string
  asPath: number[]
  communities: string[]
  localPref?: number | undefined
  med?: number | undefined
  origin: 'igp' | 'egp' | 'incomplete'
  /** Who told it. */
  peer: string
  best: boolean
  /** Unix time in seconds. */
  receivedAt: number
}

export interface Bgp {
  /** Of all neighbors that the speaker has; none while it does not run. Rejects when it runs and does not answer, as do the others. */
  neighbors(): Promise<NeighborState[]>
  /**
   * From now on `hear` is called with every move of every session, in order; and with all sessions that there are (`whole`) at first and
   * after each gap. Only while `follows` is true: otherwise only `neighbors` tells. Returns how to stop.
   */
  follow(hear: (seen: readonly SessionSeen[], whole: boolean) => void): () => void
  follows(): boolean
  /** The BFD sessions that there are, by neighbor. */
  bfd(): Promise<ReadonlyMap<string, BfdState>>
  /**
   * What neighbors have told, after import policy, some at a time. One listing at a time goes on, as fast as it is taken; the others
   * wait for it, so whoever takes no more of one must end it.
   */
  routes(family: 4 | 6): AsyncIterable<BgpRoute[]>
  /** Of each speaker: prefixes of both families for which there is a path, our own included, which every speaker has. */
  prefixes(): Promise<number[]>
  /**
   * True once bgpd and zebra have nothing queued: best paths are chosen by what was configured, and the kernel has them.
   * False when they are still at it after `ms`, or do not answer.
   */
  converged(ms: number): Promise<boolean>
  /** Whether this kernel can protect a session by a key. */
  md5(): boolean
  /** Process ids of the daemons that run. */
  pids(): Readonly<Record<string, number>>
}

async function* nothing(): AsyncIterable<BgpRoute[]> {}

export const NO_BGP: Bgp = {
  neighbors: async () => [],
  follow: () => () => {},
  follows: () => false,
  bfd: async () => new Map(),
  routes: nothing,
  prefixes: async () => [],
  converged: async () => true,
  md5: () => true,
  pids: () => ({}),
}
