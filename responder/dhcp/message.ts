/**
 * DHCP messages (RFC 2131 §2, options RFC 2132) as bytes. What is not well-formed is no message: nothing is guessed.
 * Addresses are numbers, MACs `aa:bb:cc:dd:ee:ff`.
 */

/** Option 53. */
export const TYPE = { discover: 1, offer: 2, request: 3, decline: 4, ack: 5, nak: 6, release: 7, inform: 8 } as const

/** RFC 2132, RFC 3046 (relay agent), RFC 3442 (classless routes). */
export const OPTION = {
  mask: 1,
  router: 3,
  dns: 6,
  hostname: 12,
  domain: 15,
  mtu: 26,
  broadcast: 28,
  requestedAddress: 50,
  leaseTime: 51,
  overload: 52,
  type: 53,
  serverId: 54,
  parameterList: 55,
  message: 56,
  largestMessage: 57,
  renewal: 58,
  rebinding: 59,
  clientId: 61,
  relayAgent: 82,
} as const

const PAD = 0
const END = 255
const COOKIE = 0x63825363
const BOOTREQUEST = 1
const BOOTREPLY = 2
/** ARP hardware type of Ethernet, and the length of its addresses. */
const ETHERNET = 1
const MAC_BYTES = 6

/** Where the fields of a message stand. */
const AT = { xid: 4, secs: 8, flags: 10, ciaddr: 12, yiaddr: 16, giaddr: 24, chaddr: 28, sname: 44, file: 108 } as const
const COOKIE_AT = 236
const OPTIONS_AT = 240
/** Some clients take nothing shorter than a message of BOOTP (RFC 1542 §2.1). */
const SHORTEST_REPLY = 300
const SNAME_BYTES = 64

/** What a client sent. */
export interface Request {
  type: number
  xid: number
  secs: number
  flags: number
  ciaddr: number
  giaddr: number
  mac: string
  /** By code; what stands in several parts is joined (RFC 3396). */
  options: ReadonlyMap<number, Buffer>
}

export interface Reply {
  type: number
  xid: number
  flags: number
  ciaddr: number
  yiaddr: number
  mac: string
  /** In this order; they must fit. */
  options: readonly (readonly [code: number, value: Uint8Array])[]
}

/** Undefined for what is no well-formed request of an Ethernet client. */
export function readRequest(bytes: Buffer): Request | undefined {
  if (bytes.length < OPTIONS_AT || bytes.readUInt32BE(COOKIE_AT) !== COOKIE) return undefined
  if (bytes[0] !== BOOTREQUEST || bytes[1] !== ETHERNET || bytes[2] !== MAC_BYTES) return undefined
  const options = readOptions(bytes)
  const type = options?.get(OPTION.type)
  if (options === undefined || type?.length !== 1) return undefined
  const mac = bytes.subarray(AT.chaddr, AT.chaddr + MAC_BYTES)
  // The group bit of IEEE 802: no client has such an address. 0 is none either.
  if (((mac[0] ?? 0) & 1) === 1 || mac.every((byte) => byte === 0)) return undefined
  return {
    type: type[0] ?? 0,
    xid: bytes.readUInt32BE(AT.xid),
    secs: bytes.readUInt16BE(AT.secs),
    flags: bytes.readUInt16BE(AT.flags),
    ciaddr: bytes.readUInt32BE(AT.ciaddr),
    giaddr: bytes.readUInt32BE(AT.giaddr),
    mac: macText(mac),
    options,
  }
}

export function writeReply({ type, xid, flags, ciaddr, yiaddr, mac, options }: Reply): Buffer {
  const length = options.reduce((sum, [, value]) => sum + 2 + value.length, OPTIONS_AT + 3 + 1)
  const bytes = Buffer.alloc(Math.max(SHORTEST_REPLY, length))
  bytes.set([BOOTREPLY, ETHERNET, MAC_BYTES])
  bytes.writeUInt32BE(xid, AT.xid)
  bytes.writeUInt16BE(flags, AT.flags)
  bytes.writeUInt32BE(ciaddr, AT.ciaddr)
  bytes.writeUInt32BE(yiaddr, AT.yiaddr)
  bytes.set(Buffer.from(mac.replaceAll(':', ''), 'hex'), AT.chaddr)
  bytes.writeUInt32BE(COOKIE, COOKIE_AT)
  let at = OPTIONS_AT
  for (const [code, value] of [[OPTION.type, [type]] as const, ...options]) {
    bytes.set([code, value.length], at)
    bytes.set(value, at + 2)
    at += 2 + value.length
  }
  bytes[at] = END
  return bytes
}

/** The room for options of a reply in an IP datagram of `size` bytes, beside the type and the end. */
export const roomFor = (size: number): number => size - 20 - 8 - OPTIONS_AT - 3 - 1

/** An option that is one address; undefined when it is absent, not well-formed, or 0.0.0.0. */
export function addressOption(options: Request['options'], code: number): number | undefined {
  const value = options.get(code)
  return value?.length === 4 ? value.readUInt32BE() || undefined : undefined
}

export function addressBytes(...addresses: readonly number[]): Buffer {
  const bytes = Buffer.alloc(addresses.length * 4)
  for (const [index, address] of addresses.entries()) bytes.writeUInt32BE(address, index * 4)
  return bytes
}

export const numberBytes = (value: number, width: 2 | 4): Buffer => {
  const bytes = Buffer.alloc(width)
  bytes.writeUIntBE(value, 0, width)
  return bytes
}

function readOptions(bytes: Buffer): Map<number, Buffer> | undefined {
  const parts = new Map<number, Buffer[]>()
  if (!readField(bytes.subarray(OPTIONS_AT), parts)) return undefined
  const overload = parts.get(OPTION.overload)?.[0]
  if (overload !== undefined) {
    const which = overload.length === 1 ? (overload[0] ?? 0) : 0
    if (which < 1 || which > 3) return undefined
    // The order of RFC 2131 §4.1: options, file, sname.
    if (which & 1 && !readField(bytes.subarray(AT.file, COOKIE_AT), parts)) return undefined
    if (which & 2 && !readField(bytes.subarray(AT.sname, AT.sname + SNAME_BYTES), parts)) return undefined
  }
  return new Map(Array.from(parts, ([code, values]) => [code, values.length === 1 ? first(values) : join(values)]))
}

/** False when an option reaches beyond the field. One that ends without the end option is taken: clients send such. */
function readField(field: Buffer, parts: Map<number, Buffer[]>): boolean {
  for (let at = 0; at < field.length; ) {
    const code = field[at++] ?? END
    if (code === END) return true
    if (code === PAD) continue
    const length = field[at++]
    if (length === undefined || at + length > field.length) return false
    const value = field.subarray(at, at + length)
    at += length
    const known = parts.get(code)
    if (known) known.push(value)
    else parts.set(code, [value])
  }
  return true
}

const first = (values: readonly Buffer[]): Buffer => values[0] ?? Buffer.alloc(0)
const join = (values: readonly Buffer[]): Buffer => Buffer.concat(values)

function macText(bytes: Buffer): string {
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 2)}:${hex.slice(2, 4)}:${hex.slice(4, 6)}:${hex.slice(6, 8)}:${hex.slice(8, 10)}:${hex.slice(10)}`
}
