/**
 * The hooks at the sockets of the node itself, at the root of the cgroup tree, as long as there are virtual addresses. They
 * see the sockets of every network namespace and leave all but the agent's own alone. Pinned: `sockets-<hook>`.
 */
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import koffi from 'koffi'
import { close, KernelError, socket } from '../../libc.ts'
import { detachPinned } from '../attach/attachments.ts'
import { FOLDER, pinAt, pinsIn } from '../bpffs.ts'
import { attachSockets, openLink, type SocketHook } from '../link.ts'
import type { BpfObject } from '../object.ts'

const HOOKS: readonly SocketHook[] = [
  'connect4',
  'connect6',
  'sendmsg4',
  'sendmsg6',
  'recvmsg4',
  'recvmsg6',
  'getpeername4',
  'getpeername6',
]

const PIN = /^sockets-([a-z]+[46])$/

export class SocketLinks {
  readonly #dir: string
  readonly #object: Pick<BpfObject, 'program'>

  constructor(dir: string, object: Pick<BpfObject, 'program'>) {
    this.#dir = join(dir, 'sockets')
    this.#object = object
    mkdirSync(this.#dir, FOLDER)
  }

  /** Attaches all hooks, or takes them off. @throws KernelError */
  async bring(needed: boolean): Promise<void> {
    const root = needed ? cgroupRoot() : undefined
    if (root === undefined) {
      for (const name of pinsIn(this.#dir)) if (PIN.test(name)) await detachPinned(join(this.#dir, name))
      return
    }
    const cgroup = openSync(root, 'r')
    try {
      for (const hook of HOOKS) await this.#attach(cgroup, hook)
    } finally {
      closeSync(cgroup)
    }
  }

  async #attach(cgroup: number, hook: SocketHook): Promise<void> {
    const program = this.#object.program(`lb_${hook}`)
    const pin = join(this.#dir, `sockets-${hook}`)
    try {
      const standing = openLink(pin)
      await standing.update(program)
      await standing.close()
    } catch (error) {
      if (!(error instanceof KernelError) || error.code !== 'ENOENT') throw error
      const link = await attachSockets(program, cgroup, hook)
      pinAt(pin, () => link.pin(pin))
      await link.close()
    }
  }
}

/** Where the cgroups of version 2 are mounted; undefined when they are not. */
export function cgroupRoot(): string | undefined {
  const line = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .find((mount) => mount.split(' ')[2] === 'cgroup2')
  return line?.split(' ')[1]
}

const AF_INET = 2
const SOCK_DGRAM = 2
/** asm-generic/socket.h (Linux 5.14) */
const SOL_SOCKET = 1
const SO_NETNS_COOKIE = 71

const getsockopt: (fd: number, level: number, name: number, value: Uint8Array, length: Uint32Array) => number = koffi
  .load(null)
  .func('int getsockopt(int fd, int level, int name, _Out_ void *value, _Inout_ void *length)')

const clockGetres: (clock: number, resolution: Uint8Array) => number = koffi
  .load(null)
  .func('int clock_getres(int clock, _Out_ void *resolution)')

/** linux/time.h: this clock goes on by one tick at a time. */
const CLOCK_MONOTONIC_COARSE = 6

/** Ticks in a second, as the 4 bytes that C sees. @throws KernelError */
export function ticks(): Buffer {
  const resolution = Buffer.alloc(16)
  if (clockGetres(CLOCK_MONOTONIC_COARSE, resolution) < 0) throw new KernelError(koffi.errno(), 'cannot read the tick')
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(Math.round(1e9 / Number(resolution.readBigInt64LE(8))))
  return bytes
}

/** By which programs tell the network namespace of this process, as the 8 bytes that C sees. @throws KernelError */
export function namespaceCookie(): Buffer {
  const fd = socket(AF_INET, SOCK_DGRAM, 0)
  try {
    const cookie = Buffer.alloc(8)
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, Uint32Array.of(8)) < 0) {
      throw new KernelError(koffi.errno(), 'cannot read the cookie of the network namespace')
    }
    return cookie
  } finally {
    close(fd)
  }
}
