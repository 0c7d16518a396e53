/** Opening a netlink socket: what commands and monitors have in common. */
import { bind, close, KernelError, setOption, socket } from '../libc.ts'

/** linux/netlink.h: protocols */
export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12
export const NETLINK_GENERIC = 16

/** linux/netlink.h: socket options */
const NETLINK_ADD_MEMBERSHIP = 1
export const NETLINK_CAP_ACK = 10
export const NETLINK_EXT_ACK = 11
export const NETLINK_GET_STRICT_CHK = 12

/** linux/socket.h: flags of recv(2) */
export const MSG_TRUNC = 0x20
export const MSG_DONTWAIT = 0x40

const AF_NETLINK = 16
const SOCK_RAW = 3
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_RCVBUF = 8
const SO_RCVBUFFORCE = 33
const SOL_NETLINK = 270

/**
 * A bound, non-blocking socket with a receive buffer of `receiveBuffer` bytes (less without CAP_NET_ADMIN) and each
 * of `options` set to 1. Throws {@link KernelError}.
 */
export function bindNetlink(protocol: number, receiveBuffer: number, options: readonly number[]): number {
  const fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol)
  try {
    for (const option of options) setOption(fd, SOL_NETLINK, option, 1)
    growBuffer(fd, receiveBuffer)
    bind(fd, anyPort())
    return fd
  } catch (error) {
    close(fd)
    throw error
  }
}

/** Makes the socket hear a multicast group. Throws {@link KernelError}. */
export function joinGroup(fd: number, group: number): void {
  setOption(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
}

function growBuffer(fd: number, bytes: number): void {
  try {
    setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, bytes)
  } catch (error) {
    if (!(error instanceof KernelError && error.code === 'EPERM')) throw error
    // An unprivileged agent still reads; net.core.rmem_max bounds what it gets.
    setOption(fd, SOL_SOCKET, SO_RCVBUF, bytes)
  }
}

/** struct sockaddr_nl with port 0: the kernel chooses one. */
function anyPort(): Buffer {
  const address = Buffer.alloc(12)
  address.writeUInt16LE(AF_NETLINK)
  return address
}
