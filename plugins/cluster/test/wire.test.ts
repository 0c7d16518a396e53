import t from 'tap'
import { fc } from '../../../test/property.ts'
import { fieldsOf, partsOf, without } from '../etcd/wire.ts'

const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)])
const field = fc.oneof(
  fc
    .tuple(fc.integer({ min: 1, max: 40 }), fc.nat())
    .map(([number, value]) => [...varint(number << 3), ...varint(value)]),
  fc.integer({ min: 1, max: 40 }).map((number) => [...varint((number << 3) | 1), 1, 2, 3, 4, 5, 6, 7, 8]),
  fc.integer({ min: 1, max: 40 }).map((number) => [...varint((number << 3) | 5), 1, 2, 3, 4]),
  fc
    .tuple(fc.integer({ min: 1, max: 40 }), fc.uint8Array({ maxLength: 300 }))
    .map(([number, bytes]) => [...varint((number << 3) | 2), ...varint(bytes.length), ...bytes]),
)
const message = fc.array(field, { maxLength: 30 }).map((fields) => Buffer.from(fields.flat()))

t.test('parts of a message are the message, and each has no more of a field than asked for', async () => {
  fc.assert(
    fc.property(message, fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 4 }), (whole, number, most) => {
      const parts = [...partsOf(whole, number, most)]
      const counts = parts.map((part) => [...fieldsOf(part)].filter((one) => one.number === number).length)
      const left = [...fieldsOf(without(whole, number))]
      return (
        Buffer.concat(parts).equals(whole) &&
        counts.every((count) => count <= most) &&
        left.every((one) => one.number !== number) &&
        left.length === [...fieldsOf(whole)].filter((one) => one.number !== number).length
      )
    }),
  )
})

t.test('what is no message is refused, and nothing is read beyond it', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        return [...fieldsOf(Buffer.from(bytes))].every(({ start, end }) => start < end && end <= bytes.length)
      } catch (error) {
        return error instanceof RangeError
      }
    }),
    { numRuns: 2000 },
  )
  t.throws(() => [...fieldsOf(Buffer.from([0x0a, 5, 1]))], RangeError)
  t.throws(() => [...fieldsOf(Buffer.alloc(30, 0xff))], RangeError)
})
