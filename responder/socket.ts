/** Sockets bound to one address of the node, whether it is there yet or not. */
import { bind, close, KernelError, setOption, socket } from '../dataplane/libc.ts'
import { AF_INET, AF_INET6, addressBytes } from '../dataplane/netlink/inet.ts'

/** bits/socket.h, asm-generic/socket.h, linux/in.h, linux/in6.h */
export const SOCK_STREAM = 1
export const SOCK_DGRAM = 2
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
export const SOL_SOCKET = 1
const SO_REUSEADDR = 2
export const IPPROTO_IP = 0
export const IPPROTO_IPV6 = 41
const IP_FREEBIND = 15
const IPV6_V6ONLY = 26
const IPV6_FREEBIND = 78

/**
 * A socket that waits for nothing, bound to `address` alone: `::` does not take IPv4. An address that the node does not
 * have yet can be bound (IP_FREEBIND). Throws RangeError for what is no address, {@link KernelError} (EADDRINUSE).
 */
export function bindSocket(type: number, address: string, port: number): number {
  const bytes = addressBytes(address)
  const six = bytes.length === 16
  const fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
  try {
    setOption(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_FREEBIND : IP_FREEBIND, 1)
    if (six) setOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)
    // For TCP it only says that connections which ended a moment ago do not count; for UDP two could share a port.
    if (type === SOCK_STREAM) setOption(fd, SOL_SOCKET, SO_REUSEADDR, 1)
    bind(fd, socketAddress(bytes, port))
    return fd
  } catch (error) {
    close(fd)
    throw error
  }
}

/** struct sockaddr_in or sockaddr_in6. */
function socketAddress(bytes: Buffer, port: number): Buffer {
  const six = bytes.length === 16
  const address = Buffer.alloc(six ? 28 : 16)
  address.writeUInt16LE(six ? AF_INET6 : AF_INET, 0)
  address.writeUInt16BE(port, 2)
  bytes.copy(address, six ? 8 : 4)
  return address
}

/** `10.0.0.1:53`, `[fd00::1]:53` */
export function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** What the operator is told when binding failed. */
export function bindFailure(error: unknown, address: string, port: number, service: string): Error {
  const reason = error instanceof KernelError ? error.meaning.toLowerCase() : String(error)
  const hint = error instanceof KernelError && error.code === 'EADDRINUSE' ? ` (is another ${service} running?)` : ''
  return new Error(`cannot bind ${endpoint(address, port)}: ${reason}${hint}`)
}
