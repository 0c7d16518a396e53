/**
 * A netlink socket for questions and commands. One lane, first in first out: the kernel answers one dump at a time,
 * and commands of one owner must not overtake each other. Every call that may wait for a kernel lock (RTNL) runs on
 * the thread pool; answers are decoded in pieces of at most 32 KiB with the event loop free in between.
 */
import { EAGAIN, EINTR, ENOBUFS, ENODATA } from '../errno.ts'
import { close, KernelError, receive, receiveAsync, sendAsync } from '../libc.ts'
import {
  bindNetlink,
  MSG_DONTWAIT,
  MSG_TRUNC,
  NETLINK_CAP_ACK,
  NETLINK_EXT_ACK,
  NETLINK_GET_STRICT_CHK,
} from './bind.ts'
import { Collected, failure } from './dump.ts'
import {
  decodeMessages,
  decodeOutcome,
  encodeMessages,
  type Message,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  NLMSG_ERROR,
  type Outcome,
  type Received,
} from './wire.ts'

/** One send: small enough for the socket's send buffer, large enough that the cost of a call is spread. */
const MAX_BATCH = 512
const MAX_BATCH_BYTES = 128 << 10
/** Answers are larger than acknowledgements, some 4 KiB of the kernel's accounting for a link. */
const MAX_QUESTIONS = 128
/** Holds the acknowledgements of the largest batch: each takes about 1 KiB of the kernel's accounting. */
const RECEIVE_BUFFER = 4 << 20
/** The kernel never puts more than 32 KiB into one piece of a dump unless a single message is larger. */
const DATAGRAM = 256 << 10
const MAX_DUMP_ATTEMPTS = 8

export interface Netlink {
  /**
   * Sends commands, at most 512 at once, and resolves to what the kernel said to each: undefined is success.
   * Not atomic: each message succeeds or fails alone. An iterable is read batch by batch, so encoding many messages
   * does not stop the event loop; if reading it throws, this rejects and the batches before have been sent.
   * ENOBUFS means that the acknowledgement was lost and the outcome is unknown.
   */
  request(messages: Iterable<Message>): Promise<(KernelError | undefined)[]>
  /** Sends one command. Rejects with {@link KernelError}. */
  command(message: Message): Promise<void>
  /** Sends one question and resolves to the messages that answer it. Rejects with {@link KernelError}. */
  ask(message: Message): Promise<Received[]>
  /**
   * Sends many questions and resolves to the first message that answers each, or what the kernel said instead.
   * Where a question is answered by nothing, that is ENODATA. An iterable is read batch by batch, as that of `request`.
   */
  askEach(messages: Iterable<Message>): Promise<(Received | KernelError)[]>
  /** Number of the socket, by which notifications tell who asked for a change; 0 until the kernel has answered once. */
  port(): number
  /**
   * Lists what the kernel has. `decode` turns each message into a row, or undefined to leave it out; it may be called
   * again for the same thing, because a dump that a change interrupted starts anew.
   * Rejects with {@link KernelError} (EAGAIN when changes interrupted it 8 times), or what `decode` threw.
   */
  dump<T>(type: number, payload: Uint8Array, decode: (message: Received) => T | undefined): Promise<T[]>
  /** Lets what is under way finish, refuses the rest, and closes the socket. */
  close(): Promise<void>
}

/**
 * Opens a socket of a netlink protocol (NETLINK_ROUTE, NETLINK_NETFILTER of linux/netlink.h) in the network
 * namespace of the calling thread, where it stays. Throws {@link KernelError}.
 */
export function openNetlink(protocol: number): Netlink {
  const options = [NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK]
  return new Socket(bindNetlink(protocol, RECEIVE_BUFFER, options))
}

class Socket implements Netlink {
  readonly #fd: number
  readonly #buffer = Buffer.alloc(DATAGRAM)
  #sequence = 1
  #port = 0
  #lane: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(fd: number) {
    this.#fd = fd
  }

  request(messages: Iterable<Message>): Promise<(KernelError | undefined)[]> {
    return this.#inLane(async () => {
      const errors: (KernelError | undefined)[] = []
      const all = batches(messages)
      for (let next = all.next(); !next.done; ) {
        const answered = this.#batch(next.value)
        try {
          // While the kernel is at work.
          next = all.next()
        } finally {
          errors.push(...(await answered))
        }
      }
      return errors
    })
  }

  async command(message: Message): Promise<void> {
    const [error] = await this.request([message])
    if (error) throw error
  }

  ask(message: Message): Promise<Received[]> {
    return this.#inLane(async () => {
      const answers: Received[] = []
      const sequence = await this.#send([message], NLM_F_ACK)
      for (const answer of this.#waiting()) {
        if (answer.sequence !== sequence) continue
        if (answer.type !== NLMSG_ERROR) {
          answers.push({ ...answer, payload: Buffer.from(answer.payload) })
          continue
        }
        const error = failure(decodeOutcome(answer))
        if (error) throw error
        return answers
      }
      throw lost()
    })
  }

  askEach(messages: Iterable<Message>): Promise<(Received | KernelError)[]> {
    return this.#inLane(async () => {
      const answers: (Received | KernelError)[] = []
      for (const some of questionsOf(messages)) answers.push(...(await this.#questions(some)))
      return answers
    })
  }

  port(): number {
    return this.#port
  }

  dump<T>(type: number, payload: Uint8Array, decode: (message: Received) => T | undefined): Promise<T[]> {
    return this.#inLane(async () => {
      for (let attempt = 0; attempt < MAX_DUMP_ATTEMPTS; attempt++) {
        const rows = await this.#dumpOnce(type, payload, decode)
        if (rows) return rows
      }
      throw new KernelError(EAGAIN, `changes interrupted the dump ${MAX_DUMP_ATTEMPTS} times, try again later`)
    })
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#lane
    close(this.#fd)
  }

  #inLane<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new Error('this netlink socket is closed'))
    const result = this.#lane.then(work)
    // The caller gets the failure from `result`; the lane goes on.
    this.#lane = result.catch(() => undefined)
    return result
  }

  /** Resolves to the sequence number of the first message, when the kernel has taken them all. */
  async #send(messages: readonly Message[], flags: number): Promise<number> {
    const first = this.#sequence
    this.#sequence = (first + messages.length) >>> 0
    await sendAsync(this.#fd, encodeMessages(messages, first, flags | NLM_F_REQUEST))
    return first
  }

  async #batch(messages: readonly Message[]): Promise<(KernelError | undefined)[]> {
    const outcomes = new Map<number, Outcome>()
    let first: number
    try {
      first = await this.#send(messages, NLM_F_ACK)
    } catch (error) {
      // Nothing of this batch was sent, but earlier ones were: the caller needs an answer for every message.
      if (error instanceof KernelError) return messages.map(() => error)
      throw error
    }
    for (const answer of this.#waiting()) {
      const index = (answer.sequence - first) >>> 0
      if (answer.type === NLMSG_ERROR && index < messages.length) outcomes.set(index, decodeOutcome(answer))
      if (outcomes.size === messages.length) break
    }
    return messages.map((_, index) => {
      const outcome = outcomes.get(index)
      return outcome ? failure(outcome) : lost()
    })
  }

  async #questions(messages: readonly Message[]): Promise<(Received | KernelError)[]> {
    const found = new Map<number, Received | KernelError>()
    const first = await this.#send(messages, NLM_F_ACK)
    let open = messages.length
    for (const answer of this.#waiting()) {
      const index = (answer.sequence - first) >>> 0
      if (index >= messages.length) continue
      if (answer.type !== NLMSG_ERROR) {
        if (!found.has(index)) found.set(index, { ...answer, payload: Buffer.from(answer.payload) })
        continue
      }
      const error = failure(decodeOutcome(answer))
      if (error) found.set(index, error)
      else if (!found.has(index)) found.set(index, new KernelError(ENODATA))
      if (--open === 0) break
    }
    return messages.map((_, index) => found.get(index) ?? lost())
  }

  /**
   * The messages that wait on the socket. The kernel works through a command inside send(2), so when that has
   * returned every answer is here, and an empty socket means that one was lost.
   */
  *#waiting(): Generator<Received> {
    for (;;) {
      const size = receive(this.#fd, this.#buffer, MSG_DONTWAIT | MSG_TRUNC)
      if (size === -EAGAIN) return
      if (size === -EINTR || size === -ENOBUFS || size > this.#buffer.length) continue
      if (size < 0) throw new KernelError(-size)
      const messages = decodeMessages(this.#buffer.subarray(0, size))
      this.#port = messages[0]?.port ?? this.#port
      yield* messages
    }
  }

  /** Undefined when the dump was interrupted. Always reads to the end: the kernel refuses the next dump before. */
  async #dumpOnce<T>(
    type: number,
    payload: Uint8Array,
    decode: (message: Received) => T | undefined,
  ): Promise<T[] | undefined> {
    const sequence = await this.#send([{ type, flags: NLM_F_DUMP, payload }], 0)
    const collected = new Collected(sequence, decode)
    for (let errors = 0; !collected.complete && errors < 2; ) {
      const size = await receiveAsync(this.#fd, this.#buffer, MSG_TRUNC)
      if (size === -EINTR) continue
      errors = size < 0 ? errors + 1 : 0
      // The first error (ENOBUFS shows as EAGAIN here) says that a piece was lost, a second one that no more comes.
      if (size < 0) collected.interrupted = true
      else collected.add(this.#buffer.subarray(0, Math.min(size, this.#buffer.length)), size > this.#buffer.length)
    }
    return collected.rows()
  }
}

function* questionsOf(messages: Iterable<Message>): Generator<Message[]> {
  let some: Message[] = []
  for (const message of messages) {
    some.push(message)
    if (some.length < MAX_QUESTIONS) continue
    yield some
    some = []
  }
  if (some.length > 0) yield some
}

function* batches(messages: Iterable<Message>): Generator<Message[]> {
  let batch: Message[] = []
  let bytes = 0
  for (const message of messages) {
    if (batch.length === MAX_BATCH || (batch.length > 0 && bytes + message.payload.length > MAX_BATCH_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(message)
    bytes += message.payload.length
  }
  if (batch.length > 0) yield batch
}

function lost(): KernelError {
  return new KernelError(ENOBUFS, 'the acknowledgement was lost: the change may or may not have been made')
}
