/**
 * What a daemon logs, as it happens (`terminal monitor`, lib/vty.c and lib/zlog_live.c of FRR): the daemon hands over one end of a
 * SOCK_SEQPACKET pair and never waits for its reader; what does not fit is counted. It ends with the connection that asked for it, and so
 * with this process. Neither Node nor libuv take a descriptor that comes over a socket, so this connection is not one of theirs.
 */
import koffi from 'koffi'
import { EAGAIN, EINTR } from '../errno.ts'
import { close, connect, KernelError, receive, receiveMessage, sendNow, socket } from '../libc.ts'
import { answerReader, type Outcome } from './vty.ts'

/** sys/socket.h, bits/socket_type.h */
const AF_UNIX = 1
const SOCK_STREAM = 1
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SCM_RIGHTS = 1
const MSG_DONTWAIT = 0x40
/** struct cmsghdr with one int: room for one descriptor and no more. */
const CONTROL = 20
/** Longer messages are cut by FRR itself. */
const DATAGRAM = 16_384
/** After so many of them the event loop gets a turn; there are some hundred at most in the socket. */
const MAX_DRAIN = 512

export interface Line {
  text: string
  /** Unix ms. */
  at: number
  /** How many could not be told before it, since the beginning. */
  lost: number
}

/**
 * Fields of struct zlog_live_hdr (lib/zlog_live.h): time, lengths, and the text without the identifier that may precede it. undefined
 * for what is none.
 */
export function readLine(bytes: Buffer): Line | undefined {
  if (bytes.length < 52) return undefined
  const [start, length, skipped] = [bytes.readUInt32LE(12), bytes.readUInt32LE(44), bytes.readUInt32LE(48)]
  if (start < 52 || skipped > length || start + length > bytes.length) return undefined
  return {
    text: bytes.toString('utf8', start + skipped, start + length),
    at: Number(bytes.readBigUInt64LE(0)) * 1000 + Math.floor(bytes.readUInt32LE(8) / 1e6),
    lost: bytes.readUInt32LE(32),
  }
}

export interface LiveLog {
  /** Idempotent. */
  close(): void
}

export interface LiveLogOptions {
  /** Run before in the enable node, such as `debug …`, which does not stand in the running configuration then. */
  commands: readonly string[]
  /** ms until all of them are answered. */
  patience: number
  /** In order, several at a time. */
  onLines(lines: readonly Line[]): void
  /** It has ended, and not by `close`. */
  onLost(): void
}

/** Connects to the vty socket `path`. Rejects when nobody listens, or when the daemon has no such log. */
export function openLiveLog(path: string, options: LiveLogOptions): Promise<LiveLog> {
  const { commands, patience, onLines, onLost } = options
  const asked = ['enable', ...commands, 'terminal monitor']
  return new Promise((resolve, reject) => {
    const vty = open(path)
    const polls: { close(): void }[] = []
    const fds = [vty]
    let [answers, log, closed]: [Outcome[], number | undefined, boolean] = [[], undefined, false]
    const timer = setTimeout(() => fail(`is silent for ${patience} ms`), patience)

    function end(): void {
      closed = true
      clearTimeout(timer)
      for (const poll of polls.splice(0)) poll.close()
      for (const fd of fds.splice(0)) close(fd)
    }

    function fail(why: string): void {
      if (closed) return
      const ready = log !== undefined
      end()
      if (ready) onLost()
      else reject(new Error(`the log of ${path} cannot be followed: ${why}`))
    }

    const watch = (fd: number, drain: () => void) => {
      // koffi calls outside of Node's own frames; an immediate runs in the same turn, inside one.
      const wake = () => void setImmediate(() => !closed && drain())
      polls.push(koffi.node.poll(fd, { readable: true }, wake))
    }

    const reader = answerReader((outcome) => answers.push(outcome))
    const into = { bytes: Buffer.alloc(4096), peer: Buffer.alloc(0), control: Buffer.alloc(CONTROL) }
    function hear(): void {
      const got = receiveMessage(vty, into)
      if (typeof got !== 'number') heard(got)
      else if (got !== -EAGAIN && got !== -EINTR) fail(new KernelError(-got).message)
    }

    function heard({ length, control }: { length: number; control: number }): void {
      const passed = descriptorOf(into.control.subarray(0, control))
      if (passed !== undefined) fds.push(passed)
      reader(Buffer.from(into.bytes.subarray(0, length)))
      const refused = answers.find(({ ok }) => !ok)
      if (length === 0) fail('the connection to the daemon ended')
      else if (log !== undefined) answers = []
      else if (refused) fail(refused.text.trim())
      else if (answers.length === asked.length) begin(fds[1])
    }

    function begin(fd: number | undefined): void {
      if (fd !== undefined) {
        clearTimeout(timer)
        log = fd
        watch(fd, () => take(fd))
        resolve({ close: () => !closed && end() })
      } else fail('the daemon gave no log')
    }

    const datagram = Buffer.alloc(DATAGRAM)
    function take(fd: number): void {
      const lines: Line[] = []
      let size = 0
      for (let n = 0; n < MAX_DRAIN && size >= 0; n++) {
        size = receive(fd, datagram, MSG_DONTWAIT)
        if (size === 0) break
        const line = size > 0 ? readLine(datagram.subarray(0, size)) : undefined
        if (line) lines.push(line)
      }
      if (lines.length > 0) onLines(lines)
      if (size === 0 || (size < 0 && size !== -EAGAIN && size !== -EINTR)) fail('it ended')
    }

    try {
      watch(vty, hear)
      sendNow(vty, Buffer.from(asked.map((command) => `${command}\0`).join('')))
    } catch (error) {
      fail((error as Error).message)
    }
  })
}

/** A connected socket. Throws KernelError. */
function open(path: string): number {
  const fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
  try {
    connect(fd, Buffer.from(`\x01\0${path}\0`, 'utf8'))
    return fd
  } catch (error) {
    close(fd)
    throw error
  }
}

/** Of a control message that passes one (unix(7)). */
function descriptorOf(control: Buffer): number | undefined {
  if (control.length < CONTROL) return undefined
  const fits = control.readUInt32LE(8) === SOL_SOCKET && control.readUInt32LE(12) === SCM_RIGHTS
  return fits ? control.readInt32LE(16) : undefined
}
