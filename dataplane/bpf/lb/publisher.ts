/**
 * Rings come into force by one store each, and with each the kernel waits until no program uses the one before. It waits
 * once for all that are handed over together (from Linux 6.8 on), so what is published at the same time goes in one call.
 */
import type { BpfMap } from '../map.ts'

export class Publisher {
  readonly #rings: Pick<BpfMap<number, number>, 'updateBatch'>
  #gathered: [index: number, fd: number][] = []
  #call: Promise<void> | undefined

  constructor(rings: Pick<BpfMap<number, number>, 'updateBatch'>) {
    this.#rings = rings
  }

  /**
   * Puts the ring behind a descriptor in the place of the one of this index; once it resolves no program uses that. When it
   * rejects it is not known which of those that were published with it are in force. @throws KernelError
   */
  publish(index: number, fd: number): Promise<void> {
    this.#gathered.push([index, fd])
    this.#call ??= new Promise(setImmediate).then(() => this.#handOver())
    return this.#call
  }

  #handOver(): Promise<void> {
    const rings = this.#gathered
    this.#gathered = []
    this.#call = undefined
    return this.#rings.updateBatch(rings)
  }
}
