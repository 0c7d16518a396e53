/** The part of a message behind its question, with names compressed (RFC 1035 §4.1.4). */

import { nameEnd } from './names.ts'
import { compressible } from './rdata.ts'
import type { RecordSet } from './sign.ts'

const HEADER = 12
const MAX_MESSAGE = 65_535
/** A pointer has 14 bits. */
const MAX_POINTER = 0x3fff
const IN = 1

/** No message can hold the answer. */
export class TooLarge extends Error {
  override readonly name = 'TooLarge'
}

/** Filled anew for each body. */
const scratch = Buffer.alloc(MAX_MESSAGE)

/**
 * `sets` behind a question for `qname`, to which names point. `room`: for what comes behind it.
 * Throws {@link TooLarge}.
 */
export function writeBody(qname: string, sets: readonly RecordSet[], room: number): Buffer {
  const start = HEADER + qname.length + 4
  const known = new Map<string, number>()
  remember(known, qname, HEADER)
  let at = start

  const need = (size: number) => {
    if (at + size + room > MAX_MESSAGE) throw new TooLarge()
  }
  const raw = (bytes: string) => {
    need(bytes.length)
    at += scratch.write(bytes, at, 'latin1')
  }
  const name = (text: string) => {
    let from = 0
    let pointer = known.get(text)
    while (pointer === undefined && text.charCodeAt(from) !== 0) {
      from += text.charCodeAt(from) + 1
      pointer = known.get(text.slice(from))
    }
    const begin = at
    raw(pointer === undefined ? text : text.slice(0, from))
    if (from > 0 || pointer === undefined) remember(known, text, begin, from)
    if (pointer === undefined) return
    need(2)
    at = scratch.writeUInt16BE(0xc000 | pointer, at)
  }
  const data = (type: number, rdata: string) => {
    const form = compressible(type)
    if (form === undefined) return raw(rdata)
    raw(rdata.slice(0, form.from))
    let from = form.from
    for (let n = 0; n < form.names; n++) {
      const end = nameEnd(rdata, from)
      name(rdata.slice(from, end))
      from = end
    }
    raw(rdata.slice(from))
  }

  for (const { owner, type, ttl, rdatas } of sets) {
    for (const rdata of rdatas) {
      name(owner)
      need(10)
      at = scratch.writeUInt16BE(type, at)
      at = scratch.writeUInt16BE(IN, at)
      at = scratch.writeUInt32BE(ttl, at)
      const length = at
      at += 2
      data(type, rdata)
      scratch.writeUInt16BE(at - length - 2, length)
    }
  }
  return Buffer.from(scratch.subarray(start, at))
}

/** The name at `at` and what follows its labels up to `end`, where the rest is known already. */
function remember(known: Map<string, number>, name: string, at: number, end = name.length - 1): void {
  for (let from = 0; from < end && at + from <= MAX_POINTER; from += name.charCodeAt(from) + 1) {
    known.set(name.slice(from), at + from)
  }
}
