/**
 * Listening sockets that outlive the agent, so that nobody is refused while it is started anew: systemd keeps them
 * (FDSTORE of sd_notify(3)) and hands them to the next agent (sd_listen_fds(3)). The agent opens them by its own settings;
 * a socket unit would be a second place for addresses and ports. Without systemd nothing is kept.
 */
import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { boundTo, close, closeOnExec } from '../dataplane/libc.ts'
import type { ServiceManager } from './service-manager.ts'

/** Where a socket shall listen: an address ('': all of them) and a port, or a path. */
export type Place = { address: string; port: number } | { path: string }

/** What is kept under one name. */
export interface Keep {
  /** Whether what is kept outlives this process. */
  readonly outlives: boolean
  /** A descriptor that listens at `place`, left by the agent before: the caller's from now on. */
  take(place: Place): number | undefined
  /** Keeps what listens now, in place of what was. */
  keep(fd: number): void
  /** Keeps it no longer, because nobody shall be let in there: a kept socket would take connections that nobody answers. */
  letGo(): void
}

export interface KeptSockets {
  under(name: string): Keep
  /** Closes what nobody has taken. */
  closeRest(): void
}

/** Nothing outlives the agent. */
export const NOT_KEPT: Keep = { outlives: false, take: () => undefined, keep() {}, letGo() {} }

/** sd_listen_fds(3) */
const FIRST_FD = 3
const MOST_FDS = 64
/** linux/socket.h */
const [AF_UNIX, AF_INET, AF_INET6] = [1, 2, 10]

type Environment = Readonly<Record<string, string | undefined>>

/** Those that systemd has handed over to this process, by the names under which they were kept. */
export function openKeptSockets(manager: ServiceManager, environment: Environment, pid = process.pid): KeptSockets {
  const left = handedOver(environment, pid).filter(({ fd }) => isSocket(fd))
  for (const { fd } of left) closeOnExec(fd)

  function drop(these: (one: Handed) => boolean): void {
    for (const one of left.filter(these)) {
      left.splice(left.indexOf(one), 1)
      close(one.fd)
    }
  }

  return {
    under: (name) => ({
      outlives: manager.keeps,
      take(place) {
        const own = left.find((one) => one.name === name && isAt(boundTo(one.fd), place))
        if (own !== undefined) left.splice(left.indexOf(own), 1)
        const stale = left.some((one) => one.name === name)
        drop((one) => one.name === name)
        if (stale || own === undefined) manager.letGo(name)
        if (stale && own !== undefined) manager.keep(name, own.fd)
        return own?.fd
      },
      keep: (fd) => manager.keep(name, fd),
      letGo() {
        drop((one) => one.name === name)
        manager.letGo(name)
      },
    }),
    closeRest() {
      const names = new Set(left.map(({ name }) => name))
      drop(() => true)
      for (const name of names) manager.letGo(name)
    },
  }
}

interface Handed {
  name: string
  fd: number
}

function handedOver({ LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES = '' }: Environment, pid: number): Handed[] {
  const count = Number(LISTEN_FDS)
  if (LISTEN_PID !== String(pid) || !Number.isInteger(count) || count < 0 || count > MOST_FDS) return []
  const names = LISTEN_FDNAMES.split(':')
  return Array.from({ length: count }, (_, at) => ({ name: names[at] ?? '', fd: FIRST_FD + at }))
}

/** What is none was not handed over, whatever the environment says: it may be a file of this process. */
function isSocket(fd: number): boolean {
  try {
    return [AF_UNIX, AF_INET, AF_INET6].includes(boundTo(fd).readUInt16LE(0))
  } catch {
    return false
  }
}

/** Whether an encoded sockaddr is that of `place`. */
function isAt(bound: Buffer, place: Place): boolean {
  const family = bound.readUInt16LE(0)
  if ('path' in place) return family === AF_UNIX
  if (family !== AF_INET && family !== AF_INET6) return false
  const bytes = family === AF_INET ? bound.subarray(4, 8) : bound.subarray(8, 24)
  if (bound.readUInt16BE(2) !== place.port) return false
  if (place.address === '') return bytes.every((byte) => byte === 0)
  const wanted = ipaddr.parse(place.address).toByteArray()
  return isIPv4(place.address) === (family === AF_INET) && Buffer.from(wanted).equals(bytes)
}
