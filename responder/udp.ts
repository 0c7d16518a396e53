/**
 * A UDP socket that takes up to 64 datagrams with one call to the kernel and answers them with another, by recvmmsg(2)
 * and sendmmsg(2): with one call a datagram the calls cost more than the answers. Buffers and the structures that
 * describe them are made once and used by all sockets of a batch, because a datagram is answered before the next batch.
 */
import koffi from 'koffi'
import { EAGAIN, EINTR, errnoName } from '../dataplane/errno.ts'
import { addressOf, close, KernelError, receiveMany, sendMany, setOption } from '../dataplane/libc.ts'
import { bindSocket, IPPROTO_IP, IPPROTO_IPV6, SOCK_DGRAM, SOL_SOCKET } from './socket.ts'

/** Datagrams of one call. */
const SLOTS = 64
/** After a batch with fewer, it is left to poll to say that more came; with more, asking at once is cheaper. */
const FEW = 4
/** Batches of one turn, and milliseconds after which none is begun; then poll calls again while more wait. */
const MAX_BATCHES = 16
const TURN = 4
const RECEIVE_BUFFER = 4 << 20

/** Bytes of a slot of each buffer. A longer datagram is dropped. */
export const REQUEST_SIZE = 2048
export const REPLY_SIZE = 1280
/** struct sockaddr_in6, and more than sockaddr_in. */
export const PEER_SIZE = 28
const CONTROL_SIZE = 64

/** Of 64-bit Linux: struct mmsghdr (bits/socket.h) and struct iovec. */
const HEADER = { size: 64, name: 0, nameLength: 8, iov: 16, iovLength: 24, control: 32, controlLength: 40, flags: 48 }
const LENGTH = 56
const IOV_SIZE = 16
const MSG_TRUNC = 0x20

const SO_RCVBUF = 8
const SO_RCVBUFFORCE = 33
const IP_PKTINFO = 8
const IPV6_RECVPKTINFO = 49

/** Slot n of a buffer begins at n times its size. */
export interface Batch {
  readonly requests: Buffer
  readonly replies: Buffer
  /** struct sockaddr of the peers: address at 4 (IPv4) or 8 (IPv6). */
  readonly peers: Buffer
  readonly controls: Buffer
  readonly receiving: Headers
  readonly sending: Headers
}

interface Headers {
  address: number
  words: Int32Array
  iovWords: Int32Array
  /** What the addresses in it point to is kept by this. */
  bytes: readonly Buffer[]
}

export interface UdpOptions {
  address: string
  port: number
  batch: Batch
  /**
   * The datagram in `slot` of `batch.requests`, of `length` bytes. Writes the answer into the same slot of
   * `batch.replies` and returns its length, 0 for none. Runs outside of Node's own callbacks: it must settle no promise.
   */
  answer(batch: Batch, slot: number, length: number): number
  /** The socket is lost and closed, or `answer` threw. */
  onError(error: unknown): void
}

export interface UdpSocket {
  /** Idempotent; no `answer` is called afterwards. */
  close(): void
}

/** The buffers for any number of sockets. */
export function openBatch(): Batch {
  const requests = Buffer.alloc(SLOTS * REQUEST_SIZE)
  const replies = Buffer.alloc(SLOTS * REPLY_SIZE)
  const peers = Buffer.alloc(SLOTS * PEER_SIZE)
  const controls = Buffer.alloc(SLOTS * CONTROL_SIZE)
  const receiving = headers(requests, REQUEST_SIZE, peers, controls)
  const sending = headers(replies, REPLY_SIZE, peers, controls)
  return { requests, replies, peers, controls, receiving, sending }
}

function headers(data: Buffer, size: number, peers: Buffer, controls: Buffer): Headers {
  const block = Buffer.alloc(SLOTS * HEADER.size)
  const iovs = Buffer.alloc(SLOTS * IOV_SIZE)
  const pointer = (into: Buffer, at: number, to: Buffer, offset: number) =>
    into.writeBigUInt64LE(BigInt(addressOf(to) + offset), at)
  for (let slot = 0; slot < SLOTS; slot++) {
    pointer(iovs, slot * IOV_SIZE, data, slot * size)
    iovs.writeUInt32LE(size, slot * IOV_SIZE + 8)
    const at = slot * HEADER.size
    pointer(block, at + HEADER.name, peers, slot * PEER_SIZE)
    block.writeUInt32LE(PEER_SIZE, at + HEADER.nameLength)
    pointer(block, at + HEADER.iov, iovs, slot * IOV_SIZE)
    block.writeUInt32LE(1, at + HEADER.iovLength)
    pointer(block, at + HEADER.control, controls, slot * CONTROL_SIZE)
  }
  return { address: addressOf(block), words: words(block), iovWords: words(iovs), bytes: [block, iovs] }
}

function words(bytes: Buffer): Int32Array {
  return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
}

const WORDS = HEADER.size / 4
const NAME_LENGTH = HEADER.nameLength / 4
const CONTROL_LENGTH = HEADER.controlLength / 4
const FLAGS = HEADER.flags / 4
const DATA_LENGTH = LENGTH / 4
const IOV_WORDS = IOV_SIZE / 4

/**
 * Binds in the network namespace of the calling thread and answers from now on. Throws RangeError for what is no
 * address, KernelError (EADDRINUSE). At 0.0.0.0 and :: an answer leaves from the address that was asked.
 */
export function openUdp(options: UdpOptions): UdpSocket {
  const { address, port } = options
  const fd = bindSocket(SOCK_DGRAM, address, port)
  try {
    enlarge(fd)
    const wildcard = /^[0:.]+$/.test(address)
    if (wildcard && address.includes(':')) setOption(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    else if (wildcard) setOption(fd, IPPROTO_IP, IP_PKTINFO, 1)
    return new PolledUdp(fd, wildcard, options)
  } catch (error) {
    close(fd)
    throw error
  }
}

/** Beyond net.core.rmem_max where we may. */
function enlarge(fd: number): void {
  try {
    setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
  } catch {
    setOption(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER)
  }
}

class PolledUdp implements UdpSocket {
  readonly #fd: number
  readonly #options: UdpOptions
  readonly #controlSize: number
  readonly #poll: ReturnType<typeof koffi.node.poll>
  #closed = false

  constructor(fd: number, wildcard: boolean, options: UdpOptions) {
    this.#fd = fd
    this.#options = options
    this.#controlSize = wildcard ? CONTROL_SIZE : 0
    this.#poll = koffi.node.poll(fd, { readable: true }, this.#wake)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#poll.close()
    close(this.#fd)
  }

  /** koffi calls this outside of Node's own callback frame: nothing may be thrown and no promise settled here. */
  readonly #wake = (status: unknown) => {
    try {
      // libuv stops watching a socket that polls as failed; reading takes the error away.
      if (Number(status) < 0 && !this.#closed) this.#poll.start({ readable: true }, this.#wake)
      for (let n = 0, end = 0; n < MAX_BATCHES && !this.#closed; n++) {
        if (this.#take() < FEW) return
        const time = performance.now()
        if (n === 0) end = time + TURN
        else if (time > end) return
      }
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    setImmediate(() => {
      if (!this.#closed) this.#options.onError(error)
    })
  }

  /** How many datagrams came; 0 when none waits. */
  #take(): number {
    const { batch, answer } = this.#options
    const { words, address } = batch.receiving
    for (let slot = 0; slot < SLOTS; slot++) words[slot * WORDS + CONTROL_LENGTH] = this.#controlSize
    const count = receiveMany(this.#fd, address, SLOTS)
    if (count < 0) return this.#refused(-count)
    let first = 0
    for (let slot = 0; slot < count; slot++) {
      const at = slot * WORDS
      const whole = ((words[at + FLAGS] ?? 0) & MSG_TRUNC) === 0
      const length = whole ? answer(batch, slot, words[at + DATA_LENGTH] ?? 0) : 0
      if (length > 0) this.#address(slot, length)
      else {
        this.#send(first, slot)
        first = slot + 1
      }
    }
    this.#send(first, count)
    for (let slot = 0; slot < count; slot++) words[slot * WORDS + NAME_LENGTH] = PEER_SIZE
    return count
  }

  /** An answer goes to where its question came from, and from where that went to. */
  #address(slot: number, length: number): void {
    const { receiving, sending, controls } = this.#options.batch
    const at = slot * WORDS
    sending.iovWords[slot * IOV_WORDS + 2] = length
    sending.words[at + NAME_LENGTH] = receiving.words[at + NAME_LENGTH] ?? 0
    sending.words[at + CONTROL_LENGTH] = receiving.words[at + CONTROL_LENGTH] ?? 0
    if (this.#controlSize > 0) freeInterface(controls, slot * CONTROL_SIZE)
  }

  /** Sends the answers in slots `first` to before `end`. One that the kernel refuses is left out: its client asks again. */
  #send(first: number, end: number): void {
    const { address } = this.#options.batch.sending
    while (first < end) {
      const sent = sendMany(this.#fd, address + first * HEADER.size, end - first)
      if (sent === -EAGAIN) return
      if (sent !== -EINTR) first += Math.max(sent, 1)
    }
  }

  #refused(errno: number): number {
    // These say that the socket is no longer bound (somebody destroyed it); any other was about one datagram.
    if (['ECONNABORTED', 'EBADF', 'ENOTSOCK'].includes(errnoName(errno))) {
      this.#fail(new KernelError(errno))
      this.#poll.stop()
    }
    return 0
  }
}

/** Which interface a question came in by (struct in_pktinfo, in6_pktinfo) does not bind its answer, except for fe80::/10. */
function freeInterface(controls: Buffer, at: number): void {
  const data = at + 16
  if (controls.readInt32LE(at + 8) === IPPROTO_IP) controls.writeInt32LE(0, data)
  else if (controls.readUInt16BE(data) >> 6 !== 0xfe80 >> 6) controls.writeInt32LE(0, data + 16)
}
