/**
 * A line that is slow in both directions, because the kernel of the tests may have no netem: two taps, and a process that carries
 * frames from one to the other so many ms later, in their order.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import koffi from 'koffi'
import { inNamespace, KernelError } from '../../dataplane/libc.ts'
import type { Netns, Scope } from '../netns.ts'

/** linux/if_tun.h */
const TUNSETIFF = 0x4004_54ca
const [IFF_TAP, IFF_NO_PI] = [0x0002, 0x1000]
const O_RDWR_NONBLOCK = 0o4002
const LOOK_MS = 2

const libc = koffi.load(null)
const ioctl: (fd: number, request: number, argument: Uint8Array) => number = libc.func(
  'int ioctl(int fd, unsigned long request, _Inout_ void *argument)',
)
const read: (fd: number, into: Uint8Array, size: number) => number = libc.func(
  'long read(int fd, void *into, size_t size)',
)

export interface Relay {
  /** Bridge of the far end: what is in it reaches the Ethernet by the slow line. */
  readonly bridge: string
  /** Of each direction. */
  delay(ms: number): void
  /** Frames carried so far. */
  carried(): number
}

/** Between a new bridge of `wire` and its `br0`. */
export function relay(t: Scope, wire: Netns): Relay {
  const bridge = 'slow'
  wire.run('ip', 'link', 'add', bridge, 'type', 'bridge')
  wire.run('ip', 'link', 'set', bridge, 'up')
  const [near, far] = [openTap(wire, 'near', 'br0'), openTap(wire, 'far', bridge)]
  const state = { ms: 50, carried: 0 }
  const lanes = [
    { from: near, to: far, waiting: [] as { frame: Buffer; due: number }[] },
    { from: far, to: near, waiting: [] as { frame: Buffer; due: number }[] },
  ]
  const buffer = Buffer.alloc(65_536)
  const timer = setInterval(() => {
    const now = performance.now()
    for (const { from, to, waiting } of lanes) {
      for (let size = read(from, buffer, buffer.length); size > 0; size = read(from, buffer, buffer.length)) {
        waiting.push({ frame: Buffer.from(buffer.subarray(0, size)), due: now + state.ms })
      }
      while (waiting[0] && waiting[0].due <= now) {
        try {
          writeSync(to, waiting[0].frame)
        } catch {
          // A full queue loses frames, as any line does.
        }
        waiting.shift()
        state.carried++
      }
    }
  }, LOOK_MS)
  t.teardown(() => {
    clearInterval(timer)
    for (const fd of [near, far]) closeSync(fd)
  })
  return {
    bridge,
    delay(ms) {
      state.ms = ms
    },
    carried: () => state.carried,
  }
}

function openTap(wire: Netns, name: string, bridge: string): number {
  const fd = inNamespace(wire.path, () => {
    const opened = openSync('/dev/net/tun', O_RDWR_NONBLOCK)
    const request = Buffer.alloc(40)
    request.write(name)
    request.writeUInt16LE(IFF_TAP | IFF_NO_PI, 16)
    if (ioctl(opened, TUNSETIFF, request) < 0) throw new KernelError(koffi.errno())
    return opened
  })
  wire.run('ip', 'link', 'set', name, 'master', bridge, 'up')
  return fd
}
