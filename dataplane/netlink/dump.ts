/** Collects a dump from the datagrams it comes in. Knows no socket. */
import { ENOBUFS } from '../errno.ts'
import { KernelError } from '../libc.ts'
import {
  decodeMessages,
  decodeOutcome,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
  type Outcome,
  type Received,
} from './wire.ts'

/** The rows of one dump while it goes on. */
export class Collected<T> {
  complete = false
  /** Something changed or was lost in between: the rows are not the whole truth. */
  interrupted = false
  readonly #sequence: number
  readonly #decode: (message: Received) => T | undefined
  readonly #rows: T[] = []
  #failure: { error: unknown } | undefined

  constructor(sequence: number, decode: (message: Received) => T | undefined) {
    this.#sequence = sequence
    this.#decode = decode
  }

  add(datagram: Buffer, truncated: boolean): void {
    try {
      if (truncated) throw new KernelError(ENOBUFS, `a message of the dump is larger than ${datagram.length} bytes`)
      for (const message of decodeMessages(datagram)) this.#message(message)
    } catch (error) {
      // Kept until the end of the dump has been read.
      this.#failure ??= { error }
    }
  }

  /** Undefined when the dump was interrupted; throws what went wrong in it. */
  rows(): T[] | undefined {
    if (this.#failure) throw this.#failure.error
    return this.interrupted ? undefined : this.#rows
  }

  #message(message: Received): void {
    if (message.sequence !== this.#sequence || this.complete) return
    if (message.flags & NLM_F_DUMP_INTR) this.interrupted = true
    if (message.type === NLMSG_DONE || message.type === NLMSG_ERROR) {
      this.complete = true
      const error = failure(decodeOutcome(message))
      if (error) throw error
      return
    }
    if (this.interrupted || this.#failure) return
    const row = this.#decode(message)
    if (row !== undefined) this.#rows.push(row)
  }
}

/** The error that an outcome stands for; undefined is success. */
export function failure({ errno, extack }: Outcome): KernelError | undefined {
  return errno === 0 ? undefined : new KernelError(errno, extack)
}
