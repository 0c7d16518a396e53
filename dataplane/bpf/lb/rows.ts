/** The structs of bpf/src/lb_maps.h and lb_family.h as they stand in memory. */
import { addressBytes, addressText } from '../../netlink/inet.ts'
import { LB_DOWN, LB_DRAINING, LB_SHARERS, LB_UP } from '../../numbers.ts'
import type { Codec } from '../codec.ts'
import type { VipBackend } from './entries.ts'

export type Family = 4 | 6
export const FAMILIES: readonly Family[] = [4, 6]

export const familyOf = (address: string): Family => (address.includes(':') ? 6 : 4)
const bytesOf = (family: Family): number => (family === 4 ? 4 : 16)

/** IANA protocol numbers */
export const PROTOCOLS = { tcp: 6, udp: 17 } as const
export type Protocol = keyof typeof PROTOCOLS

/** struct lb_frontend: an address and a port of a protocol, of virtual addresses and of backends. */
export interface Frontend {
  address: string
  port: number
  protocol: Protocol
}

export const frontend = (family: Family): Codec<Frontend> => ({
  size: bytesOf(family) + 4,
  encode(into, at, { address, port, protocol }) {
    into.set(addressBytes(address), at)
    into.writeUInt16BE(port, at + bytesOf(family))
    into.writeUInt16LE(PROTOCOLS[protocol], at + bytesOf(family) + 2)
  },
  decode: (from, at) => ({
    address: addressText(from.subarray(at, at + bytesOf(family))),
    port: from.readUInt16BE(at + bytesOf(family)),
    protocol: from.readUInt16LE(at + bytesOf(family) + 2) === PROTOCOLS.tcp ? 'tcp' : 'udp',
  }),
})

/** struct lb_sharers */
export const sharers = (family: Family): Codec<readonly Frontend[]> => {
  const each = frontend(family)
  return {
    size: 4 + each.size * LB_SHARERS,
    encode(into, at, all) {
      into.fill(0, at, at + this.size)
      into.writeUInt32LE(all.length, at)
      for (const [n, one] of all.entries()) each.encode(into, at + 4 + n * each.size, one)
    },
    decode: (from, at) =>
      Array.from({ length: from.readUInt32LE(at) }, (_, n) => each.decode(from, at + 4 + n * each.size)),
  }
}

/** struct lb_tuple: a packet of a client. */
export interface Tuple {
  source: string
  dest: string
  sourcePort: number
  destPort: number
  protocol: Protocol
}

export const tuple = (family: Family): Codec<Tuple> => ({
  size: 2 * bytesOf(family) + 8,
  encode(into, at, { source, dest, sourcePort, destPort, protocol }) {
    const ports = at + 2 * bytesOf(family)
    into.set(addressBytes(source), at)
    into.set(addressBytes(dest), at + bytesOf(family))
    into.writeUInt16BE(sourcePort, ports)
    into.writeUInt16BE(destPort, ports + 2)
    into.writeUInt32LE(PROTOCOLS[protocol], ports + 4)
  },
  decode(from, at) {
    const ports = at + 2 * bytesOf(family)
    return {
      source: addressText(from.subarray(at, at + bytesOf(family))),
      dest: addressText(from.subarray(at + bytesOf(family), ports)),
      sourcePort: from.readUInt16BE(ports),
      destPort: from.readUInt16BE(ports + 2),
      protocol: from.readUInt32LE(ports + 4) === PROTOCOLS.tcp ? 'tcp' : 'udp',
    }
  },
})

/** Bits of lb_flow.state (bpf/src/lb_maps.h). */
export const FLOW_OPEN = 8
export const FLOW_CLOSED = 16
export const FLOW_TRANSLATED = 32
export const FLOW_ENDED = 256

/** struct lb_flow */
export interface Flow {
  /** Row of `lb_backends`. */
  backend: number
  generation: number
  /** Unit of time of the last packet. */
  last: number
  state: number
  ifindex: number
  /** MAC addresses of the client and of the node. */
  link: Buffer
  /** What the backend takes for the client; port 0: the client itself. */
  own: string
  ownPort: number
}

export const flow = (family: Family): Codec<Flow> => ({
  size: 36 + bytesOf(family),
  encode(into, at, { backend, generation, last, state, ifindex, link, own, ownPort }) {
    for (const [n, word] of [backend, generation, last, state, ifindex].entries()) into.writeUInt32LE(word, at + n * 4)
    into.set(link, at + 20)
    into.writeUInt16BE(ownPort, at + 32)
    into.writeUInt16LE(0, at + 34)
    into.set(addressBytes(own), at + 36)
  },
  decode: (from, at) => ({
    backend: from.readUInt32LE(at),
    generation: from.readUInt32LE(at + 4),
    last: from.readUInt32LE(at + 8),
    state: from.readUInt32LE(at + 12),
    ifindex: from.readUInt32LE(at + 16),
    link: Buffer.from(from.subarray(at + 20, at + 32)),
    ownPort: from.readUInt16BE(at + 32),
    own: addressText(from.subarray(at + 36, at + 36 + bytesOf(family))),
  }),
})

/** struct lb_vip */
export interface VipRow {
  index: number
  pick: number
  flags: number
}

export const vipRow: Codec<VipRow> = {
  size: 8,
  encode(into, at, { index, pick, flags }) {
    into.writeUInt32LE(index, at)
    into.writeUInt8(pick, at + 4)
    into.writeUInt8(flags, at + 5)
    into.writeUInt16LE(0, at + 6)
  },
  decode: (from, at) => ({ index: from.readUInt32LE(at), pick: from.readUInt8(at + 4), flags: from.readUInt8(at + 5) }),
}

/** struct lb_settings */
export interface SettingsRow {
  anyPort: number
  generation: number
}

export const settingsRow: Codec<SettingsRow> = {
  size: 8,
  encode(into, at, { anyPort, generation }) {
    into.writeUInt32LE(anyPort, at)
    into.writeUInt32LE(generation, at + 4)
  },
  decode: (from, at) => ({ anyPort: from.readUInt32LE(at), generation: from.readUInt32LE(at + 4) }),
}

/** struct lb_label */
export interface Label {
  id: string
  weight: number
  algorithm: number
}

const ID_BYTES = 64

export const label: Codec<Label> = {
  size: ID_BYTES + 8,
  encode(into, at, { id, weight, algorithm }) {
    into.fill(0, at, at + ID_BYTES)
    into.write(id, at, ID_BYTES, 'latin1')
    into.writeUInt32LE(weight, at + ID_BYTES)
    into.writeUInt32LE(algorithm, at + ID_BYTES + 4)
  },
  decode: (from, at) => ({
    id: from.toString('latin1', at, at + ID_BYTES).replace(/\0.*$/s, ''),
    weight: from.readUInt32LE(at + ID_BYTES),
    algorithm: from.readUInt32LE(at + ID_BYTES + 4),
  }),
}

/** Key of the label of a virtual address; those of backends have the numbers of their rows. */
export const vipLabel = (index: number): number => (0x80000000 | index) >>> 0

/** struct lb_backend: what of it the agent writes. The rest is the programs'. */
export const BACKEND_BYTES = 64
const GENERATION = 16
const PORT = 20
const STATE = 22
const STATES = { up: LB_UP, draining: LB_DRAINING, down: LB_DOWN } as const

export interface BackendRow {
  address: string
  port: number
  state: VipBackend['state']
  generation: number
}

/** The rows in the memory of map `lb_backends`. */
export class BackendRows {
  readonly #bytes: Buffer
  readonly #words: Int32Array

  constructor(memory: ArrayBuffer) {
    this.#bytes = Buffer.from(memory)
    this.#words = new Int32Array(memory)
  }

  /** undefined for an empty row. */
  get(row: number, family: Family): BackendRow | undefined {
    const at = row * BACKEND_BYTES
    const generation = this.generation(row)
    if (generation === 0) return undefined
    const number = this.#bytes.readUInt8(at + STATE)
    const state = (Object.keys(STATES) as (keyof typeof STATES)[]).find((name) => STATES[name] === number)
    if (state === undefined) return undefined
    const address = addressText(this.#bytes.subarray(at, at + bytesOf(family)))
    return { address, port: this.#bytes.readUInt16BE(at + PORT), state, generation }
  }

  generation(row: number): number {
    return Atomics.load(this.#words, (row * BACKEND_BYTES + GENERATION) / 4) >>> 0
  }

  /** Fills an empty row, of which no program knows; its way is sought by the first packet. */
  fill(row: number, { address, port, state, generation }: BackendRow): void {
    const at = row * BACKEND_BYTES
    this.#bytes.fill(0, at, at + BACKEND_BYTES)
    this.#bytes.set(addressBytes(address), at)
    this.#bytes.writeUInt16BE(port, at + PORT)
    this.setState(row, state)
    Atomics.store(this.#words, (at + GENERATION) / 4, generation | 0)
  }

  setState(row: number, state: VipBackend['state']): void {
    this.#bytes.writeUInt8(STATES[state], row * BACKEND_BYTES + STATE)
  }

  /** Connections of the row's backend are nobody's any longer. */
  clear(row: number): void {
    Atomics.store(this.#words, (row * BACKEND_BYTES + GENERATION) / 4, 0)
  }
}
