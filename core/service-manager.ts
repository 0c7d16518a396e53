/**
 * Tells systemd how it stands with the agent: sd_notify(3), one datagram of `NAME=value` lines to the socket that
 * NOTIFY_SOCKET names. Without that variable nobody asked, and nothing is sent.
 */
import { close, sendMessage, sendTo, socket } from '../dataplane/libc.ts'

/** linux/socket.h, linux/net.h */
const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
/** asm-generic/socket.h, linux/socket.h: the level and the kind of a message that carries descriptors */
const [SOL_SOCKET, SCM_RIGHTS] = [1, 1]

const NOBODY: ServiceManager = { keeps: false, ready() {}, stopping() {}, keep() {}, letGo() {} }

/** A third of the time after which systemd gives the agent up, so that two signs of life may be late. */
const SHARE = 3

export interface ServiceManager {
  /** The agent serves; from here on it shows that it lives, as often as it is asked to. */
  ready(): void
  /** It ends by itself or was told to. */
  stopping(): void
  /** Whether there is one, which keeps descriptors. */
  readonly keeps: boolean
  /** Has the descriptor kept under `name` until the next agent, which gets it (sd_listen_fds(3)). */
  keep(name: string, fd: number): void
  /** Has whatever is kept under `name` closed. */
  letGo(name: string): void
}

/** Reads NOTIFY_SOCKET and WATCHDOG_USEC. What cannot be sent is told to `onProblem` and is no reason to end. */
export function serviceManager(
  environment: Readonly<Record<string, string | undefined>>,
  onProblem: (error: unknown) => void,
): ServiceManager {
  const path = environment.NOTIFY_SOCKET ?? ''
  if (!/^[/@]./.test(path)) return NOBODY
  const address = socketAddress(path)
  const say = (message: string, carried?: number) => {
    try {
      const fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
      try {
        const bytes = Buffer.from(message)
        if (carried === undefined) sendTo(fd, bytes, address)
        else sendMessage(fd, { bytes, peer: address, control: rights(carried) })
      } finally {
        close(fd)
      }
    } catch (error) {
      onProblem(error)
    }
  }
  const everyMs = Math.floor(Number(environment.WATCHDOG_USEC ?? 0) / 1000 / SHARE)
  return {
    ready() {
      say('READY=1')
      if (everyMs > 0) setInterval(() => say('WATCHDOG=1'), everyMs).unref()
    },
    stopping: () => say('STOPPING=1'),
    keeps: true,
    // Not polled for errors: a listening socket that nobody accepts from is none.
    keep: (name, fd) => say(`FDSTORE=1\nFDNAME=${name}\nFDPOLL=0`, fd),
    letGo: (name) => say(`FDSTOREREMOVE=1\nFDNAME=${name}`),
  }
}

/** struct sockaddr_un of linux/un.h; a name that begins with `@` is an abstract one, which begins with a zero byte. */
function socketAddress(path: string): Buffer {
  const name = Buffer.from(path.startsWith('@') ? `\0${path.slice(1)}` : `${path}\0`)
  const family = Buffer.alloc(2)
  family.writeUInt16LE(AF_UNIX)
  return Buffer.concat([family, name])
}

/** struct cmsghdr of linux/socket.h with one descriptor, padded as CMSG_SPACE does. */
function rights(fd: number): Buffer {
  const control = Buffer.alloc(24)
  control.writeBigUInt64LE(20n, 0)
  control.writeInt32LE(SOL_SOCKET, 8)
  control.writeInt32LE(SCM_RIGHTS, 12)
  control.writeInt32LE(fd, 16)
  return control
}
