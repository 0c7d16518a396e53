/**
 * BPF links: programs attached to a hook, held by a handle or a pin. A pinned link carries packets without the agent;
 * the next agent opens the pin and puts its own program in place. Attaching, updating and detaching wait for RTNL or
 * RCU in the kernel, so all of them run on the pool. Interfaces are those of the process's own network namespace.
 */
import { close, rmSync } from 'node:fs'
import { promisify } from 'node:util'
import { KernelError } from '../libc.ts'
import { ATTACH_NETFILTER, checked, libbpf } from './libbpf.ts'
import type { Program } from './object.ts'
import { linkOptions } from './structs.ts'

/** enum bpf_attach_type of linux/bpf.h */
const ATTACH_XDP = 37
const ATTACH_TCX = { ingress: 46, egress: 47 } as const

/** Of programs that see the addresses that sockets connect to, send to, hear from and ask for. */
const ATTACH_SOCKET = {
  connect4: 10,
  connect6: 11,
  sendmsg4: 14,
  sendmsg6: 15,
  recvmsg4: 19,
  recvmsg6: 20,
  getpeername4: 29,
  getpeername6: 30,
} as const

/** linux/if_link.h: XDP in the stack (generic) and in the driver (native). */
const XDP_FLAGS = { generic: 2, native: 4 } as const

/** linux/bpf.h: before another program; with none named, before all. */
const BPF_F_BEFORE = 8

/** enum bpf_link_type and enum bpf_cmd of linux/bpf.h */
const LINK_TYPE = { xdp: 6, netfilter: 10, tcx: 11 } as const
const BPF_LINK_CREATE = 28

/** asm-generic/errno.h: reasons for which generic XDP would be refused as well. */
const EPERM = 1
const EBUSY = 16
const EEXIST = 17
const ENODEV = 19
const NOT_ABOUT_THE_DRIVER: ReadonlySet<number> = new Set([EPERM, EBUSY, EEXIST, ENODEV])

export type SocketHook = keyof typeof ATTACH_SOCKET
export type Direction = keyof typeof ATTACH_TCX
export type XdpMode = keyof typeof XDP_FLAGS

/** `ifindex` is 0 when the interface is gone: then the link is dead, and only `detach` is left to do with it. */
export type LinkInfo =
  | { kind: 'tcx'; id: number; programId: number; ifindex: number; direction: Direction }
  | { kind: 'xdp'; id: number; programId: number; ifindex: number }
  | { kind: 'netfilter'; id: number; programId: number; hook: NetfilterHook }

/** Where a netfilter program stands (struct bpf_attr.link_create.netfilter). One program per exact place. */
export interface NetfilterHook {
  family: 'ipv4' | 'ipv6'
  hook: keyof typeof NETFILTER_HOOKS
  /** Ascending order of traversal, -2^31 and 2^31-1 excluded. */
  priority: number
}

/** linux/netfilter.h */
const NETFILTER_HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const
const NETFILTER_FAMILIES = { ipv4: 2, ipv6: 10 } as const

/** Attaches a tc program to this side of the interface: behind the programs that are there, or before them. */
export async function attachTcx(
  program: Program,
  ifindex: number,
  direction: Direction,
  place: 'last' | 'first' = 'last',
): Promise<Link> {
  const options = place === 'first' ? linkOptions(BPF_F_BEFORE) : null
  const result = await libbpf().createLink(program.fd, ifindex, ATTACH_TCX[direction], options)
  return new Link(checked(result, `attach ${program.name} to tcx ${direction} of interface ${ifindex}`))
}

/** The same at once and for an interface of the namespace that this thread is in, which waits for RTNL: for tests. */
export function attachTcxHere(program: Program, ifindex: number, direction: Direction): Link {
  const result = libbpf().createLinkHere(program.fd, ifindex, ATTACH_TCX[direction], null)
  return new Link(checked(result, `attach ${program.name} to tcx ${direction} of interface ${ifindex}`))
}

/**
 * Attaches an XDP program, in the driver where it can. `nativeRefusal` is why it could not. With `mode` given only that
 * is tried. Throws EBUSY when the interface has an XDP program.
 */
export async function attachXdp(
  program: Program,
  ifindex: number,
  mode?: XdpMode,
): Promise<{ link: Link; mode: XdpMode; nativeRefusal?: KernelError }> {
  const attach = async (as: XdpMode) => {
    const result = await libbpf().createLink(program.fd, ifindex, ATTACH_XDP, linkOptions(XDP_FLAGS[as]))
    return new Link(checked(result, `attach ${program.name} to ${as} XDP of interface ${ifindex}`))
  }
  if (mode !== undefined) return { link: await attach(mode), mode }
  try {
    return { link: await attach('native'), mode: 'native' }
  } catch (error) {
    if (!(error instanceof KernelError) || NOT_ABOUT_THE_DRIVER.has(error.errno)) throw error
    return { link: await attach('generic'), mode: 'generic', nativeRefusal: error }
  }
}

/** Attaches a netfilter program (Linux 6.4). Throws EBUSY when there is one at this very place. */
export async function attachNetfilter(program: Program, place: NetfilterHook): Promise<Link> {
  const attributes = Buffer.alloc(32)
  attributes.writeUInt32LE(program.fd, 0)
  attributes.writeUInt32LE(ATTACH_NETFILTER, 8)
  attributes.writeUInt32LE(NETFILTER_FAMILIES[place.family], 16)
  attributes.writeUInt32LE(NETFILTER_HOOKS[place.hook], 20)
  attributes.writeInt32LE(place.priority, 24)
  const result = await libbpf().bpf(BPF_LINK_CREATE, attributes)
  const where = `${place.family} ${place.hook} at priority ${place.priority}`
  return new Link(checked(result, `attach ${program.name} to ${where}`))
}

/** Attaches a program to the sockets of a cgroup (version 2) and of those below; `cgroup` is its open directory. */
export async function attachSockets(program: Program, cgroup: number, hook: SocketHook): Promise<Link> {
  const result = await libbpf().createLink(program.fd, cgroup, ATTACH_SOCKET[hook], null)
  return new Link(checked(result, `attach ${program.name} to ${hook} of the cgroup`))
}

/** Opens a pinned link. Throws ENOENT. */
export function openLink(path: string): Link {
  return new Link(checked(libbpf().openPin(path), `open the link pinned at ${path}`), path)
}

export class Link {
  #fd: number
  #path: string | undefined

  /** Owns `fd`. `path` is where the link is pinned. */
  constructor(fd: number, path?: string) {
    this.#fd = fd
    this.#path = path
  }

  /** Pins the link, so that it stays attached without the agent. Throws EEXIST when the path is taken. */
  pin(path: string): void {
    checked(libbpf().pin(this.#fd, path), `pin the link at ${path}`)
    this.#path = path
  }

  info(): LinkInfo {
    return readInfo(this.#fd)
  }

  /** True when the interface that the link was attached to no longer exists. */
  deviceGone(): boolean {
    const info = this.info()
    return info.kind !== 'netfilter' && info.ifindex === 0
  }

  /**
   * Puts another program of the same type in place, every packet meeting the one or the other. Throws ENOLINK when the
   * interface is gone. Netfilter links cannot: attach the new program at another priority, then detach this link.
   */
  async update(program: Program): Promise<void> {
    checked(await libbpf().updateLink(this.#fd, program.fd, null), `put ${program.name} in place`)
  }

  /**
   * Takes the program off its hook, removes the pin and ends the handle; the hook is free once this resolves. The pin
   * goes first: an agent killed in between takes the link with it, instead of leaving a dead one behind.
   */
  async detach(): Promise<void> {
    if (this.#path !== undefined) rmSync(this.#path, { force: true })
    this.#path = undefined
    checked(await libbpf().detachLink(this.#fd), 'detach the link')
    await this.close()
  }

  /** Ends the handle. A pinned link stays attached, any other goes off its hook. */
  async close(): Promise<void> {
    const fd = this.#fd
    this.#fd = -1
    if (fd >= 0) await promisify(close)(fd)
  }
}

/** struct bpf_link_info of linux/bpf.h. */
function readInfo(fd: number): LinkInfo {
  const info = Buffer.alloc(64)
  checked(libbpf().info(fd, info, Uint32Array.of(info.length)), 'read the description of a link')
  const type = info.readUInt32LE(0)
  const common = { id: info.readUInt32LE(4), programId: info.readUInt32LE(8) }
  const first = info.readUInt32LE(16)
  const second = info.readUInt32LE(20)
  switch (type) {
    case LINK_TYPE.xdp:
      return { kind: 'xdp', ...common, ifindex: first }
    case LINK_TYPE.tcx:
      return { kind: 'tcx', ...common, ifindex: first, direction: named(ATTACH_TCX, second) }
    case LINK_TYPE.netfilter: {
      const priority = info.readInt32LE(24)
      const hook = { family: named(NETFILTER_FAMILIES, first), hook: named(NETFILTER_HOOKS, second), priority }
      return { kind: 'netfilter', ...common, hook }
    }
    default:
      throw new Error(`BPF link ${common.id} is of type ${type}, which this agent never makes`)
  }
}

/** The name of a number in a table of constants. */
function named<N extends string>(table: Readonly<Record<N, number>>, number: number): N {
  for (const name in table) if (table[name] === number) return name
  throw new Error(`the kernel answered ${number}, which is none of ${Object.keys(table).join(', ')}`)
}
