/**
 * The socket of a DHCP server on one device. The kernel says of each packet which network its frame was stamped with
 * (SO_RCVMARK, Linux 5.19): the programs on the ports of the bridge have proven that, the packet's own words have not.
 */
import koffi from 'koffi'
import { EAGAIN, EINTR } from '../../dataplane/errno.ts'
import {
  bind,
  close,
  deviceIndex,
  KernelError,
  receiveMessage,
  sendMessage,
  setOption,
  setOptionBytes,
  socket,
} from '../../dataplane/libc.ts'
import { STAMP, STAMP_MASK, STAMP_NET } from '../../dataplane/numbers.ts'

export const SERVER_PORT = 67
export const CLIENT_PORT = 68

/** linux/socket.h, linux/in.h */
const AF_INET = 2
const SOCK_DGRAM = 2
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const IPPROTO_IP = 0
const IP_PKTINFO = 8
/** asm-generic/socket.h */
const SOL_SOCKET = 1
const SO_BROADCAST = 6
const SO_RCVBUF = 8
const SO_BINDTODEVICE = 25
const SO_RCVBUFFORCE = 33
const SO_MARK = 36
const SO_RCVMARK = 75
/** struct cmsghdr, on 64 bits */
const CMSG_HEADER = 16
const CMSG_ALIGN = 8

/** No message of a client is longer; what is cut off is none. */
const LARGEST = 2048
/** Some thousands of requests may wait: machines start all at once. */
const RECEIVE_BUFFER = 8 << 20
/** Then the event loop gets a turn, as others live on it. */
const MAX_DRAIN = 64

export interface Arrival {
  /** Valid during the call only. */
  bytes: Buffer
  /** The network that its frame was stamped with. */
  net: number
  source: number
}

export interface Link {
  readonly ifindex: number
  /** From an address of this node on the device. Throws KernelError. */
  send(bytes: Uint8Array, from: number, to: number): void
  close(): void
}

/**
 * Listens on port 67 of a device, on all its addresses, and on no other device. @throws KernelError, among others
 * EADDRINUSE when another server does so, ENODEV for a device that is not there, ENOPROTOOPT on Linux before 5.19.
 * `onFailure`: it has failed later, and is closed.
 */
export function openLink(
  name: string,
  onArrival: (arrival: Arrival) => void,
  onFailure: (error: KernelError) => void,
): Link {
  const ifindex = deviceIndex(name)
  const fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
  try {
    setOptionBytes(fd, SOL_SOCKET, SO_BINDTODEVICE, Buffer.from(`${name}\0`))
    setOption(fd, SOL_SOCKET, SO_RCVMARK, 1)
    setOption(fd, SOL_SOCKET, SO_BROADCAST, 1)
    growBuffer(fd)
    bind(fd, socketAddress(0, SERVER_PORT))
  } catch (error) {
    close(fd)
    throw error
  }
  const into = {
    bytes: Buffer.alloc(LARGEST),
    peer: Buffer.alloc(16),
    control: Buffer.alloc(64),
  }
  let closed = false

  function drain(): void {
    for (let taken = 0; taken < MAX_DRAIN && !closed; taken++) {
      const got = receiveMessage(fd, into)
      if (got === -EAGAIN) return
      if (got === -EINTR) continue
      if (typeof got === 'number') {
        // Whoever may, can end a socket of others (ss --kill); it hears nothing any more.
        link.close()
        onFailure(new KernelError(-got))
        return
      }
      const net = stampedNet(into.control.subarray(0, got.control))
      if (net === 0 || got.length === LARGEST || into.peer.readUInt16BE(2) !== CLIENT_PORT) continue
      onArrival({ bytes: into.bytes.subarray(0, got.length), net, source: into.peer.readUInt32BE(4) })
    }
  }
  // koffi calls back outside of Node's own frame, where nothing may be thrown and no promise settled.
  const poll = koffi.node.poll(fd, { readable: true }, () => void setImmediate(drain))
  const link: Link = {
    ifindex,
    send(bytes, from, to) {
      sendMessage(fd, { bytes, peer: socketAddress(to, CLIENT_PORT), control: sourceControl(ifindex, from) })
    },
    close() {
      if (closed) return
      closed = true
      poll.close()
      close(fd)
    },
  }
  return link
}

function growBuffer(fd: number): void {
  try {
    setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
  } catch (error) {
    if (!(error instanceof KernelError && error.code === 'EPERM')) throw error
    // Without CAP_NET_ADMIN net.core.rmem_max bounds it; clients whose request is lost ask again.
    setOption(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER)
  }
}

/** The number of the network in the mark; 0 when the frame bore no stamp. */
function stampedNet(control: Buffer): number {
  for (let at = 0; at + CMSG_HEADER <= control.length; ) {
    const length = Number(control.readBigUInt64LE(at))
    if (length < CMSG_HEADER || at + length > control.length) return 0
    if (control.readInt32LE(at + 8) === SOL_SOCKET && control.readInt32LE(at + 12) === SO_MARK) {
      const mark = control.readUInt32LE(at + CMSG_HEADER)
      return (mark & STAMP_MASK) >>> 0 === STAMP ? mark & STAMP_NET : 0
    }
    at += Math.ceil(length / CMSG_ALIGN) * CMSG_ALIGN
  }
  return 0
}

/** struct in_pktinfo: by which device, and from which address. */
function sourceControl(ifindex: number, from: number): Buffer {
  const control = Buffer.alloc(CMSG_HEADER + 16)
  control.writeBigUInt64LE(BigInt(CMSG_HEADER + 12))
  control.writeInt32LE(IPPROTO_IP, 8)
  control.writeInt32LE(IP_PKTINFO, 12)
  control.writeInt32LE(ifindex, CMSG_HEADER)
  control.writeUInt32BE(from, CMSG_HEADER + 4)
  return control
}

/** struct sockaddr_in */
function socketAddress(address: number, port: number): Buffer {
  const bytes = Buffer.alloc(16)
  bytes.writeUInt16LE(AF_INET)
  bytes.writeUInt16BE(port, 2)
  bytes.writeUInt32BE(address, 4)
  return bytes
}
