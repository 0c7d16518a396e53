/**
 * Tells systemd how it stands with the agent: sd_notify(3), one datagram of `NAME=value` lines to the socket that
 * NOTIFY_SOCKET names. Without that variable nobody asked, and nothing is sent.
 */
import { close, sendTo, socket } from '../dataplane/libc.ts'

/** linux/socket.h, linux/net.h */
const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000

/** A third of the time after which systemd gives the agent up, so that two signs of life may be late. */
const SHARE = 3

export interface ServiceManager {
  /** The agent serves; from here on it shows that it lives, as often as it is asked to. */
  ready(): void
  /** It ends by itself or was told to. */
  stopping(): void
}

/** Reads NOTIFY_SOCKET and WATCHDOG_USEC. What cannot be sent is told to `onProblem` and is no reason to end. */
export function serviceManager(
  environment: Readonly<Record<string, string | undefined>>,
  onProblem: (error: unknown) => void,
): ServiceManager {
  const path = environment.NOTIFY_SOCKET ?? ''
  if (!/^[/@]./.test(path)) return { ready() {}, stopping() {} }
  const address = socketAddress(path)
  const say = (message: string) => {
    try {
      const fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
      try {
        sendTo(fd, Buffer.from(message), address)
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
  }
}

/** struct sockaddr_un of linux/un.h; a name that begins with `@` is an abstract one, which begins with a zero byte. */
function socketAddress(path: string): Buffer {
  const name = Buffer.from(path.startsWith('@') ? `\0${path.slice(1)}` : `${path}\0`)
  const family = Buffer.alloc(2)
  family.writeUInt16LE(AF_UNIX)
  return Buffer.concat([family, name])
}
