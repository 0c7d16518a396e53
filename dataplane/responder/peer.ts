/** Who listens at the other end of a unix socket, as the kernel tells it. */
import type { Socket } from 'node:net'
import koffi from 'koffi'

/** asm-generic/socket.h */
const SOL_SOCKET = 1
const SO_PEERCRED = 17

const getsockopt = koffi.load(null).func('int getsockopt(int fd, int level, int name, void *value, void *length)')

/** Process id of the listener that a connected socket has reached; -1 where the kernel does not tell. */
export function listenerOf(socket: Socket): number {
  // Node keeps the descriptor of a socket for itself.
  const { fd = -1 } = (socket as unknown as { _handle?: { fd?: number } })._handle ?? {}
  // struct ucred
  const credentials = Buffer.alloc(12)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(credentials.length)
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, length) === 0 ? credentials.readInt32LE(0) : -1
}
