/** A DHCP client as tests need it: requests as bytes, replies as fields. */
import { type DhcpBinding, type DhcpNetwork, dhcpBinding, dhcpNetwork } from '../../../dataplane/responder/entries.ts'
import { networkOf } from '../address.ts'
import { OPTION, TYPE } from '../message.ts'

export const MAC = '02:00:00:00:00:05'
export const SERVER = '10.0.0.1'
export const NOW = Date.UTC(2030, 0, 1)

export const network = (fields: Partial<Omit<DhcpNetwork, 'kind' | 'key'>> = {}): DhcpNetwork =>
  dhcpNetwork('dhcp', {
    ...{ net: 1, link: 'br-work', cidr: '10.0.0.0/24', gateway: SERVER, leaseSeconds: 3600, mtu: 0 },
    ...{ dns: [], domain: '' },
    ...fields,
  })

export const binding = (fields: Partial<Omit<DhcpBinding, 'kind' | 'key'>> = {}): DhcpBinding =>
  dhcpBinding('dhcp', { net: 1, address: '10.0.0.5', mac: MAC, hostname: '', ...fields })

export const ip = (text: string): number => networkOf(`${text}/32`)?.first ?? Number.NaN

export interface Asked {
  type?: number
  mac?: string
  xid?: number
  flags?: number
  ciaddr?: string
  giaddr?: string
  /** Option 50. */
  wants?: string
  /** Option 54. */
  server?: string
  options?: readonly (readonly [code: number, value: Uint8Array])[]
}

const quad = (text: string) => Buffer.from(text.split('.').map(Number))

/** A request; without a type a DISCOVER. */
export function ask({ type = TYPE.discover, mac = MAC, xid = 7, flags = 0, ...rest }: Asked = {}): Buffer {
  const bytes = Buffer.alloc(300)
  bytes.set([1, 1, 6])
  bytes.writeUInt32BE(xid, 4)
  bytes.writeUInt16BE(flags, 10)
  if (rest.ciaddr) bytes.set(quad(rest.ciaddr), 12)
  if (rest.giaddr) bytes.set(quad(rest.giaddr), 24)
  bytes.set(Buffer.from(mac.replaceAll(':', ''), 'hex'), 28)
  bytes.writeUInt32BE(0x63825363, 236)
  const options: (readonly [number, Uint8Array])[] = [
    [OPTION.type, Buffer.from([type])],
    ...(rest.wants ? [[OPTION.requestedAddress, quad(rest.wants)] as const] : []),
    ...(rest.server ? [[OPTION.serverId, quad(rest.server)] as const] : []),
    ...(rest.options ?? []),
  ]
  return Buffer.concat([bytes.subarray(0, 240), optionBytes(options), Buffer.from([255]), Buffer.alloc(40)])
}

export const optionBytes = (options: readonly (readonly [number, Uint8Array])[]): Buffer =>
  Buffer.concat(options.flatMap(([code, value]) => [Buffer.from([code, value.length]), value]))

export interface Told {
  type: number
  xid: number
  flags: number
  ciaddr: string
  yiaddr: string
  mac: string
  /** By code, in hex. */
  options: Record<number, string>
  /** Codes in their order. */
  order: number[]
  length: number
}

const text = (bytes: Buffer, at: number) => Array.from(bytes.subarray(at, at + 4)).join('.')

/** Throws for what no client could read. */
export function told(bytes: Buffer): Told {
  if (bytes[0] !== 2 || bytes[1] !== 1 || bytes[2] !== 6 || bytes.readUInt32BE(236) !== 0x63825363) {
    throw new Error(`no reply: ${bytes.toString('hex')}`)
  }
  const options: Record<number, string> = {}
  const order: number[] = []
  let at = 240
  while (bytes[at] !== 255) {
    const [code, length] = [bytes.readUInt8(at), bytes.readUInt8(at + 1)]
    if (options[code] !== undefined) throw new Error(`option ${code} twice`)
    options[code] = bytes.subarray(at + 2, at + 2 + length).toString('hex')
    order.push(code)
    at += 2 + length
  }
  return {
    type: Number.parseInt(options[OPTION.type] ?? '0', 16),
    xid: bytes.readUInt32BE(4),
    flags: bytes.readUInt16BE(10),
    ...{ ciaddr: text(bytes, 12), yiaddr: text(bytes, 16) },
    mac: bytes
      .subarray(28, 34)
      .toString('hex')
      .replace(/..(?!$)/g, '$&:'),
    ...{ options, order, length: bytes.length },
  }
}

export const hex = (value: string): string => quad(value).toString('hex')
