/**
 * Hears what changes in the kernel, on the agent's own event loop. The only file that uses `koffi.node.poll`
 * (uv_poll underneath), which koffi does not document: replace it here if an upgrade takes it away.
 *
 * Overflow: while its queue is full, and from then until the queue has been read empty, the kernel drops
 * notifications and says so only once. So the queue is emptied first and `onOverflow` called then: whatever changes
 * after that call is heard, and a dump made in it has the rest.
 */
import koffi from 'koffi'
import { EAGAIN, EINTR, ENOBUFS } from '../errno.ts'
import { close, KernelError, receive } from '../libc.ts'
import { bindNetlink, joinGroup, MSG_DONTWAIT, MSG_TRUNC } from './bind.ts'
import { decodeMessages, type Received } from './wire.ts'

/** linux/rtnetlink.h: multicast groups of NETLINK_ROUTE */
export const RTNLGRP_LINK = 1
export const RTNLGRP_NEIGH = 3
export const RTNLGRP_TC = 4
export const RTNLGRP_IPV4_IFADDR = 5
export const RTNLGRP_IPV4_ROUTE = 7
export const RTNLGRP_IPV4_RULE = 8
export const RTNLGRP_IPV6_IFADDR = 9
export const RTNLGRP_IPV6_ROUTE = 11
export const RTNLGRP_IPV6_RULE = 19

/** linux/netfilter/nfnetlink.h: multicast groups of NETLINK_NETFILTER */
export const NFNLGRP_CONNTRACK_NEW = 1
export const NFNLGRP_CONNTRACK_UPDATE = 2
export const NFNLGRP_CONNTRACK_DESTROY = 3
export const NFNLGRP_NFTABLES = 7

const RECEIVE_BUFFER = 16 << 20
/** After so many datagrams the event loop gets a turn; poll calls again while more wait. */
const MAX_DRAIN = 256
const DATAGRAM = 256 << 10
/** Asked to, one goes on for so many turns: more than the buffer holds. */
const MAX_DRAINS = 1024

export interface MonitorOptions {
  /** NETLINK_ROUTE or NETLINK_NETFILTER. */
  protocol: number
  groups: readonly number[]
  /** Bytes the kernel may queue before it drops; default 16 MiB. */
  receiveBuffer?: number
  /** One notification; `payload` is valid during the call only. What a handler throws is an uncaught exception. */
  onMessage(message: Received): void
  /** Notifications were lost: list anew what you follow. What changes from now on is told again. */
  onOverflow(): void
  /** The socket failed, or a datagram is not netlink. The monitor is closed; nothing more will come. */
  onError(error: unknown): void
}

export interface Monitor {
  /** Hears at once what waits, so that everything that has happened until now has been told; up to 64 MiB of it. */
  drain(): void
  /** Idempotent. */
  close(): void
}

/**
 * Opens a monitor in the network namespace of the calling thread, where it stays. Throws {@link KernelError}:
 * EPERM where a group needs CAP_NET_ADMIN. What changed before this returned is not told: dump after opening.
 */
export function openMonitor(options: MonitorOptions): Monitor {
  const fd = bindNetlink(options.protocol, options.receiveBuffer ?? RECEIVE_BUFFER, [])
  try {
    for (const group of options.groups) joinGroup(fd, group)
    return new PolledSocket(fd, options)
  } catch (error) {
    close(fd)
    throw error
  }
}

class PolledSocket implements Monitor {
  readonly #fd: number
  readonly #options: MonitorOptions
  readonly #buffer = Buffer.alloc(DATAGRAM)
  readonly #poll: ReturnType<typeof koffi.node.poll>
  #overflowed = false
  #closed = false

  constructor(fd: number, options: MonitorOptions) {
    this.#fd = fd
    this.#options = options
    this.#poll = koffi.node.poll(fd, { readable: true }, this.#wake)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#poll.close()
    close(this.#fd)
  }

  drain(): void {
    for (let n = 0; n < MAX_DRAINS && !this.#closed; n++) if (this.#drain()) return
  }

  /**
   * koffi calls this outside of Node's own callback frame: what handlers throw would surface at some later call, and
   * promises they settle would wait for an unrelated event. An immediate runs in the same turn, inside a frame.
   */
  readonly #wake = () => {
    setImmediate(() => this.#drain())
  }

  /** True when nothing waits any more. */
  #drain(): boolean {
    let size = 0
    for (let n = 0; n < MAX_DRAIN && size !== -EAGAIN && !this.#closed; n++) {
      size = receive(this.#fd, this.#buffer, MSG_DONTWAIT | MSG_TRUNC)
      if (size === -EINTR) continue
      if (size === -EAGAIN) this.#emptied()
      else if (size === -ENOBUFS || size > this.#buffer.length) this.#overflow()
      else if (size < 0) this.#fail(new KernelError(-size))
      else this.#deliver(size)
    }
    // Poll calls again while more waits. Whether it does is not known here, and an overflow must not stay untold.
    if (this.#overflowed && !this.#closed) this.#wake()
    return size === -EAGAIN
  }

  #overflow(): void {
    this.#overflowed = true
    // libuv stops watching a socket that polls as failed, which is how this error shows there.
    this.#poll.start({ readable: true }, this.#wake)
  }

  #emptied(): void {
    if (!this.#overflowed) return
    this.#overflowed = false
    this.#options.onOverflow()
  }

  #deliver(size: number): void {
    for (const message of this.#decode(size)) {
      // A handler may have closed the monitor.
      if (this.#closed) return
      this.#options.onMessage(message)
    }
  }

  #decode(size: number): Received[] {
    try {
      return decodeMessages(this.#buffer.subarray(0, size))
    } catch (error) {
      this.#fail(error)
      return []
    }
  }

  #fail(error: unknown): void {
    this.close()
    this.#options.onError(error)
  }
}
