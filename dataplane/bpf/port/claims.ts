/**
 * Endpoints that became another port's. The program tells of it in ring buffer `events`; what it could not tell, because
 * the buffer was full, is found by asking for all that has to be known. Claims wait until somebody listens.
 */
import { u32, u64 } from '../codec.ts'
import { mac } from './layout.ts'
import { struct } from './struct.ts'

/** struct claim_event. `kind` stands where the reason of a violation does. */
export const claimEvent = struct<{
  time: bigint
  mac: string
  net: number
  from: number
  ifindex: number
  kind: number
}>('claim_event', 32, {
  time: [0, u64],
  mac: [8, mac],
  net: [16, u32],
  from: [20, u32],
  ifindex: [24, u32],
  kind: [28, u32],
})

/** An endpoint is at a port. Ports by name, '' for one that went while no agent ran. */
export interface PortClaim {
  /** Number of its network. */
  net: number
  mac: string
  port: string
  /** The port that it was at before; undefined when it was at none, or has not moved. */
  from: string | undefined
  /** Name that the port has by now, its last one when it has gone; undefined once the endpoint was placed elsewhere. */
  now(): string | undefined
}

/** Names of so many ports that have gone are remembered, more than a bridge can have. */
const REMEMBERED = 4096

interface Told {
  net: number
  mac: string
  /** ifindex of the port that it is at. */
  ifindex: number
  /** ifindex of the port that it was at before; undefined as in {@link PortClaim}. */
  from: number | undefined
}

export class Claims {
  readonly #home: (endpoint: { net: number; mac: string }) => number
  readonly #names = new Map<number, string>()
  readonly #listeners = new Set<(claim: PortClaim) => void>()
  #waiting: Told[] = []

  /** `home` tells the ifindex of the port that an endpoint is at, 0 for none. */
  constructor(home: (endpoint: { net: number; mac: string }) => number) {
    this.#home = home
  }

  /** Notes the names of devices, which are asked for when the devices have gone, too. Until the first time, claims wait. */
  note(ports: Iterable<{ ifindex: number; name: string }>): void {
    for (const { ifindex, name } of ports) {
      this.#names.delete(ifindex)
      this.#names.set(ifindex, name)
    }
    for (const ifindex of this.#names.keys()) {
      if (this.#names.size <= REMEMBERED) break
      this.#names.delete(ifindex)
    }
    this.#flush()
  }

  tell(told: Told): void {
    this.#waiting.push(told)
    this.#flush()
  }

  /** Calls `listener` for every claim, those that have waited first; returns how to stop that. */
  listen(listener: (claim: PortClaim) => void): () => void {
    this.#listeners.add(listener)
    this.#flush()
    return () => void this.#listeners.delete(listener)
  }

  #flush(): void {
    if (this.#listeners.size === 0 || this.#names.size === 0) return
    const waiting = this.#waiting
    this.#waiting = []
    const nameOf = (ifindex: number) => this.#names.get(ifindex) ?? ''
    for (const { net, mac, ifindex, from } of waiting) {
      const port = nameOf(ifindex)
      const now = () => (this.#home({ net, mac }) === ifindex ? nameOf(ifindex) : undefined)
      const claim = { net, mac, port, from: from === undefined ? undefined : nameOf(from), now }
      for (const listener of this.#listeners) listener(claim)
    }
  }
}
