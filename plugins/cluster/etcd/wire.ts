/**
 * Large messages of protocol buffers in parts, because coding one of 20,000 keys whole would keep the event loop for a tenth of a
 * second. Messages that are put together, byte after byte, are one message with all their repeated fields
 * (protobuf.dev, "Encoding", Last One Wins).
 */

/** A field of a message: its number, and where it stands, its tag included. */
interface Field {
  number: number
  start: number
  end: number
}

/** The fields of a message, not those of messages in it. @throws RangeError for what is no message */
export function* fieldsOf(message: Buffer): Generator<Field> {
  for (let at = 0; at < message.length; ) {
    const start = at
    const tag = varint(message, at)
    at = tag.end
    const type = tag.value & 7
    if (type === 0) at = varint(message, at).end
    else if (type === 1) at += 8
    else if (type === 5) at += 4
    else if (type === 2) {
      const length = varint(message, at)
      at = length.end + length.value
    } else throw new RangeError(`a field of type ${type}`)
    if (at > message.length) throw new RangeError('a message that ends within a field')
    yield { number: tag.value >>> 3, start, end: at }
  }
}

/** The number that begins at `at`. Of one with more than 32 bits only the end is right. */
function varint(message: Buffer, at: number): { value: number; end: number } {
  let value = 0
  for (let shift = 0; ; shift += 7) {
    const byte = message[at++]
    if (byte === undefined || shift > 63) throw new RangeError('a number that does not end')
    if (shift < 32) value |= (byte & 0x7f) << shift
    if (byte < 0x80) return { value: value >>> 0, end: at }
  }
}

/** Messages that together are `message`, none with more than `most` of the repeated field `number`. At least one. */
export function* partsOf(message: Buffer, number: number, most: number): Generator<Buffer> {
  let [from, count] = [0, 0]
  for (const field of fieldsOf(message)) {
    if (field.number !== number || ++count <= most) continue
    yield message.subarray(from, field.start)
    from = field.start
    count = 1
  }
  yield message.subarray(from)
}

/** `message` without a field that nobody asks for. */
export function without(message: Buffer, number: number): Buffer {
  const kept: Buffer[] = []
  for (const field of fieldsOf(message))
    if (field.number !== number) kept.push(message.subarray(field.start, field.end))
  return Buffer.concat(kept)
}
