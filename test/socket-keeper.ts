/** Stands for systemd where it keeps an agent's listening sockets: hears sd_notify(3), and hands over what was stored. */
import { join } from 'node:path'
import { bind, close, type Datagram, receiveMessage, socket } from '../dataplane/libc.ts'
import type { Scope } from './netns.ts'

const AF_UNIX = 1
/** SOCK_DGRAM, SOCK_NONBLOCK, SOCK_CLOEXEC */
const KIND = 2 | 0o4000 | 0o2000000

export interface SocketKeeper {
  /** For the environment of the agent. */
  readonly path: string
  /** Names under which something is kept now. */
  names(): string[]
  /** What an agent that starts now is to get: descriptors from 3 on, and their names as LISTEN_FDNAMES has them. */
  handOver(): { fds: number[]; names: string }
}

export function socketKeeper(t: Scope, dir: string): SocketKeeper {
  const path = join(dir, 'notify')
  const own = socket(AF_UNIX, KIND, 0)
  bind(own, Buffer.concat([Buffer.from([AF_UNIX, 0]), Buffer.from(`${path}\0`)]))
  const kept: { name: string; fd: number }[] = []
  t.teardown(() => {
    for (const { fd } of kept) close(fd)
    close(own)
  })

  /** Everything that was said by now. */
  function hear(): void {
    for (;;) {
      const into: Datagram = { bytes: Buffer.alloc(4096), peer: Buffer.alloc(128), control: Buffer.alloc(64) }
      const got = receiveMessage(own, into)
      if (typeof got === 'number') return
      const lines = Buffer.from(into.bytes.subarray(0, got.length)).toString().split('\n')
      const name = lines.find((line) => line.startsWith('FDNAME='))?.slice('FDNAME='.length) ?? ''
      if (lines.includes('FDSTORE=1')) kept.push({ name, fd: Buffer.from(into.control).readInt32LE(16) })
      if (!lines.includes('FDSTOREREMOVE=1')) continue
      for (const one of kept.filter((it) => it.name === name)) {
        kept.splice(kept.indexOf(one), 1)
        close(one.fd)
      }
    }
  }

  // systemd carries out at once what it is told.
  const clock = setInterval(hear, 5).unref()
  t.teardown(() => clearInterval(clock))
  return {
    path,
    names() {
      hear()
      return kept.map(({ name }) => name).sort()
    },
    handOver() {
      hear()
      return { fds: kept.map(({ fd }) => fd), names: kept.map(({ name }) => name).join(':') }
    },
  }
}
