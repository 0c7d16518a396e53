/** Requests made, and answers taken apart without trust: what is malformed throws. */
import { TYPE } from '../rdata.ts'

const IN = 1

export interface Decoded {
  id: number
  rcode: number
  authoritative: boolean
  truncated: boolean
  question: string
  /** `name type rdata` with names in full, without OPT. */
  answers: string[]
  authorities: string[]
  additionals: string[]
}

export interface Asking {
  id?: number
  type?: number
  edns?: boolean
  secure?: boolean
  udpSize?: number
}

/** `name` is absolute text without escapes. */
export function request(name: string, { id = 1, type = TYPE.A, edns, secure, udpSize = 1232 }: Asking = {}): Buffer {
  const header = Buffer.alloc(12)
  header.writeUInt16BE(id, 0)
  header.writeUInt16BE(1, 4)
  const withOpt = edns === true || secure === true
  header.writeUInt16BE(withOpt ? 1 : 0, 10)
  const labels = name.split('.').slice(0, -1)
  const owner = labels.map((label) => Buffer.from(String.fromCharCode(label.length) + label, 'latin1'))
  const tail = Buffer.alloc(5)
  tail.writeUInt16BE(type, 1)
  tail.writeUInt16BE(IN, 3)
  const opt = Buffer.from([0, 0, TYPE.OPT, udpSize >> 8, udpSize & 255, 0, 0, secure ? 0x80 : 0, 0, 0, 0])
  return Buffer.concat([header, ...owner, tail, ...(withOpt ? [opt] : [])])
}

export function decode(bytes: Buffer): Decoded {
  let at = 12
  const name = (): string => {
    const { text, end } = nameAt(bytes, at)
    at = end
    return text
  }
  const u16 = () => {
    at += 2
    return bytes.readUInt16BE(at - 2)
  }
  const flags = bytes.readUInt16BE(2)
  const questions = bytes.readUInt16BE(4)
  const question = questions === 1 ? `${name()} ${u16()} ${u16()}` : ''
  const section = (count: number) => {
    const records: string[] = []
    for (let n = 0; n < count; n++) {
      const owner = name()
      const type = u16()
      at += 6
      const size = u16()
      if (at + size > bytes.length) throw new Error('data beyond the end')
      if (type !== TYPE.OPT) records.push(`${owner} ${type} ${rdata(bytes, type, at, at + size)}`)
      at += size
    }
    return records
  }
  const answers = section(bytes.readUInt16BE(6))
  const authorities = section(bytes.readUInt16BE(8))
  const additionals = section(bytes.readUInt16BE(10))
  if (at !== bytes.length) throw new Error(`${bytes.length - at} octets behind the message`)
  return {
    id: bytes.readUInt16BE(0),
    rcode: flags & 0xf,
    authoritative: (flags & 0x0400) !== 0,
    truncated: (flags & 0x0200) !== 0,
    question,
    answers,
    authorities,
    additionals,
  }
}

function rdata(bytes: Buffer, type: number, from: number, end: number): string {
  const names = type === TYPE.SOA ? 2 : ([TYPE.NS, TYPE.CNAME, TYPE.PTR, TYPE.MX] as number[]).includes(type) ? 1 : 0
  let at = type === TYPE.MX ? from + 2 : from
  const parts = [bytes.toString('hex', from, at)]
  for (let n = 0; n < names; n++) {
    const part = nameAt(bytes, at)
    parts.push(part.text)
    at = part.end
  }
  if (at > end) throw new Error('a name longer than its data')
  return [...parts, bytes.toString('hex', at, end)].filter((part) => part !== '').join(' ')
}

function nameAt(bytes: Buffer, from: number): { text: string; end: number } {
  let text = ''
  let at = from
  let end = -1
  for (;;) {
    const size = bytes.readUInt8(at)
    if (size >= 0xc0) {
      const to = bytes.readUInt16BE(at) & 0x3fff
      if (to >= at) throw new Error('a pointer forward')
      if (end < 0) end = at + 2
      at = to
      continue
    }
    if (size === 0) return { text: text || '.', end: end < 0 ? at + 1 : end }
    text += `${bytes.toString('latin1', at + 1, at + 1 + size)}.`
    at += size + 1
  }
}
