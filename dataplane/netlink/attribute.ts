/**
 * Netlink attributes (struct nlattr of include/uapi/linux/netlink.h) to bytes and back. Pure.
 * Reading never trusts a length: malformed input is a {@link WireError}, and every step moves forward.
 * Integers are in host byte order, which is little-endian on every machine supported; `Be` marks network order.
 */

const ATTRIBUTE_HEADER_SIZE = 4
const NLA_F_NESTED = 0x8000
const NLA_TYPE_MASK = 0x3fff
/** An attribute's length field has 16 bits. */
const MAX_ATTRIBUTE = 0xffff

/** Bytes that are not the netlink format, or an attribute of another size than its meaning needs. */
export class WireError extends Error {
  override readonly name = 'WireError'
}

/** Builds the payload of one message: fixed header first, then attributes. */
export class Payload {
  #bytes = Buffer.alloc(256)
  #length = 0

  /** Appends a family's fixed header as it stands. */
  raw(bytes: Uint8Array): this {
    this.#reserve(bytes.length).set(bytes)
    return this
  }

  bytes(type: number, value: Uint8Array): this {
    this.#attribute(type, value.length).set(value)
    return this
  }

  u8(type: number, value: number): this {
    this.#attribute(type, 1).writeUInt8(value)
    return this
  }

  u16(type: number, value: number): this {
    this.#attribute(type, 2).writeUInt16LE(value)
    return this
  }

  u32(type: number, value: number): this {
    this.#attribute(type, 4).writeUInt32LE(value)
    return this
  }

  u16Be(type: number, value: number): this {
    this.#attribute(type, 2).writeUInt16BE(value)
    return this
  }

  u32Be(type: number, value: number): this {
    this.#attribute(type, 4).writeUInt32BE(value)
    return this
  }

  /** A NUL-terminated string. Throws RangeError for a NUL inside, where the kernel would read another name. */
  text(type: number, value: string): this {
    if (value.includes('\0')) throw new RangeError(`netlink string with a NUL inside: ${JSON.stringify(value)}`)
    return this.bytes(type, Buffer.from(`${value}\0`))
  }

  /** An attribute whose content is what `fill` appends. */
  nest(type: number, fill: (payload: this) => void): this {
    const start = this.#length
    this.#attribute(type | NLA_F_NESTED, 0)
    fill(this)
    const size = this.#length - start
    if (size > MAX_ATTRIBUTE) throw new RangeError(`netlink attribute ${type} is too long: ${size} bytes`)
    this.#bytes.writeUInt16LE(size, start)
    return this
  }

  /** The bytes so far; a later append does not change them. */
  finish(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length))
  }

  #attribute(type: number, size: number): Buffer {
    const total = ATTRIBUTE_HEADER_SIZE + size
    if (total > MAX_ATTRIBUTE) throw new RangeError(`netlink attribute ${type} is too long: ${total} bytes`)
    const room = this.#reserve(total)
    room.writeUInt16LE(total, 0)
    room.writeUInt16LE(type, 2)
    return room.subarray(ATTRIBUTE_HEADER_SIZE)
  }

  /** The next `size` bytes, zeroed padding behind them included in the length. */
  #reserve(size: number): Buffer {
    const start = this.#length
    const end = start + align(size)
    if (end > this.#bytes.length) {
      const grown = Buffer.alloc(Math.max(this.#bytes.length * 2, end))
      grown.set(this.#bytes)
      this.#bytes = grown
    }
    this.#length = end
    return this.#bytes.subarray(start, start + size)
  }
}

/** Attributes by type; of several with one type the last counts, as in the kernel's own nla_parse. */
export class Attributes {
  readonly #source: Buffer
  /** Type → position of the attribute's header; no view is made for attributes that nobody reads. */
  readonly #positions = new Map<number, number>()

  /** Reads `source` from `start` to `end`. Throws {@link WireError}. */
  constructor(source: Buffer, start: number, end = source.length) {
    if (start > end || end > source.length) throw new WireError(`netlink message ends before its attributes`)
    this.#source = source
    let at = start
    while (at + ATTRIBUTE_HEADER_SIZE <= end) {
      const size = source.readUInt16LE(at)
      if (size < ATTRIBUTE_HEADER_SIZE || size > end - at) {
        throw new WireError(`netlink attribute of ${size} bytes where ${end - at} are left`)
      }
      this.#positions.set(source.readUInt16LE(at + 2) & NLA_TYPE_MASK, at)
      at += align(size)
    }
  }

  /** A view, not a copy. */
  bytes(type: number): Buffer | undefined {
    const at = this.#positions.get(type)
    if (at === undefined) return undefined
    return this.#source.subarray(at + ATTRIBUTE_HEADER_SIZE, at + this.#source.readUInt16LE(at))
  }

  u8(type: number): number | undefined {
    const at = this.#sized(type, 1)
    return at === undefined ? undefined : this.#source.readUInt8(at)
  }

  u16(type: number): number | undefined {
    const at = this.#sized(type, 2)
    return at === undefined ? undefined : this.#source.readUInt16LE(at)
  }

  u32(type: number): number | undefined {
    const at = this.#sized(type, 4)
    return at === undefined ? undefined : this.#source.readUInt32LE(at)
  }

  u16Be(type: number): number | undefined {
    const at = this.#sized(type, 2)
    return at === undefined ? undefined : this.#source.readUInt16BE(at)
  }

  u32Be(type: number): number | undefined {
    const at = this.#sized(type, 4)
    return at === undefined ? undefined : this.#source.readUInt32BE(at)
  }

  /** A string up to its NUL, or to its end. */
  text(type: number): string | undefined {
    const bytes = this.bytes(type)
    if (bytes === undefined) return undefined
    const end = bytes.indexOf(0)
    return bytes.toString('utf8', 0, end < 0 ? bytes.length : end)
  }

  nested(type: number): Attributes | undefined {
    const at = this.#positions.get(type)
    if (at === undefined) return undefined
    return new Attributes(this.#source, at + ATTRIBUTE_HEADER_SIZE, at + this.#source.readUInt16LE(at))
  }

  #sized(type: number, size: number): number | undefined {
    const at = this.#positions.get(type)
    if (at === undefined) return undefined
    const actual = this.#source.readUInt16LE(at) - ATTRIBUTE_HEADER_SIZE
    if (actual !== size) throw new WireError(`netlink attribute ${type} has ${actual} bytes instead of ${size}`)
    return at + ATTRIBUTE_HEADER_SIZE
  }
}

/** Netlink's padding: the next multiple of four. Lengths may exceed 2^31, so no bit operations. */
export function align(size: number): number {
  return Math.ceil(size / 4) * 4
}
