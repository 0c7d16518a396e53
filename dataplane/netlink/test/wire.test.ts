import t from 'tap'
import { fc } from '../../../test/property.ts'
import { addAddress, decodeAddress } from '../address.ts'
import { Attributes, align, Payload, WireError } from '../attribute.ts'
import { type Conntrack, decodeConntrack, encodeDeletion, encodeFilter } from '../ctnetlink.ts'
import { Collected } from '../dump.ts'
import { addressBytes, addressText, macBytes, macText, parsePrefix } from '../inet.ts'
import { createBridge, createVeth, decodeLink, deleteLink, setLink } from '../link.ts'
import { addNeighbour, decodeNeighbour } from '../neighbour.ts'
import { addRoute, decodeRoute } from '../route.ts'
import { decodeMessages, decodeOutcome, encodeMessages, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR } from '../wire.ts'

const RUNS = { numRuns: 2000 }

const connection: Conntrack = {
  version: 4,
  proto: 1,
  src: '10.0.0.1',
  dst: '10.0.0.2',
  reply: { src: '10.0.0.2', dst: '10.0.0.1' },
  icmp: { type: 8, code: 0, id: 7 },
  id: 9,
  status: 0,
  mark: 0,
}

t.test('messages come back as they were written', async (t) => {
  const messages = [
    { type: 16, flags: 0x400, payload: Buffer.from('odd') },
    { type: 300, flags: 0, payload: Buffer.alloc(0) },
  ]
  const bytes = encodeMessages(messages, 0xffffffff, 0x5)
  t.equal(bytes.length % 4, 0)
  t.same(
    decodeMessages(bytes).map(({ type, flags, sequence, payload }) => [type, flags, sequence, payload.toString()]),
    [
      [16, 0x405, 0xffffffff, 'odd'],
      [300, 0x5, 0, ''],
    ],
    'padding is not payload, and the sequence wraps',
  )
})

t.test('attributes come back as they were written', async (t) => {
  const bytes = new Payload()
    .raw(Buffer.alloc(4))
    .u8(1, 200)
    .u16(2, 65535)
    .u32(3, 0xffffffff)
    .u16Be(4, 80)
    .u32Be(5, 0xdeadbeef)
    .text(6, 'br-work')
    .nest(7, (nest) => nest.u32(1, 1).nest(2, (inner) => inner.text(1, 'deep')))
    .bytes(8, Buffer.alloc(300, 7))
    .finish()
  const read = new Attributes(bytes, 4)
  t.same(
    [read.u8(1), read.bytes(2)?.readUInt16LE(), read.u32(3), read.u16Be(4), read.u32Be(5)],
    [200, 65535, 0xffffffff, 80, 0xdeadbeef],
  )
  t.equal(read.text(6), 'br-work')
  t.equal(read.nested(7)?.nested(2)?.text(1), 'deep')
  t.same(read.bytes(8), Buffer.alloc(300, 7), 'past the first allocation')
  t.equal(read.u32(99), undefined)
  t.equal(read.nested(99), undefined)
})

t.test('a payload refuses what the format cannot carry', async (t) => {
  t.throws(() => new Payload().text(1, 'a\0b'), RangeError)
  t.throws(() => new Payload().bytes(1, Buffer.alloc(70_000)), RangeError)
  t.throws(
    () => new Payload().nest(1, (nest) => nest.bytes(2, Buffer.alloc(40_000)).bytes(3, Buffer.alloc(40_000))),
    RangeError,
  )
})

t.test('a message refuses values that the kernel would read as something else', async (t) => {
  for (const name of ['', 'a/b', 'st%d', 'a b', '.', '..', 'sixteen-letters-', 'x:1']) {
    t.throws(() => deleteLink(name), RangeError, JSON.stringify(name))
  }
  t.throws(() => deleteLink(0), RangeError, 'index 0 would mean: by group')
  t.throws(() => setLink(-1, { up: true }), RangeError)
  t.throws(() => setLink(1, { mac: '02:00:00:00:00' }), RangeError)
  t.throws(() => addRoute({ dst: '10.0.0.0' }), RangeError)
  t.throws(() => addRoute({ dst: '10.0.0.0/33' }), RangeError)
  t.throws(() => addRoute({ dst: '10.0.0.0/8', gateway: 'gw.example' }), RangeError)
  t.throws(() => addRoute({ dst: '10.0.0.0/8', protocol: 300 }), RangeError)
})

t.test('addresses have one text each', async (t) => {
  for (const text of ['0.0.0.0', '10.0.0.1', '255.255.255.255', '::', '::1', 'fd00::1', '2001:db8:0:1:1:1:1:1']) {
    t.equal(addressText(addressBytes(text)), text)
  }
  t.equal(addressText(addressBytes('FD00:0:0::A')), 'fd00::a')
  for (const text of ['', '1', '1.2.3', '010.0.0.1', '0x7f.1', '256.1.1.1', 'fe80::1%eth0', '1::2::3', '10.0.0.1/8']) {
    t.throws(() => addressBytes(text), RangeError, JSON.stringify(text))
  }
  for (const text of ['/8', '10.0.0.0/', '10.0.0.0/-1', '10.0.0.0/08x', '::/129', '10.0.0.0/8/8']) {
    t.throws(() => parsePrefix(text), RangeError, JSON.stringify(text))
  }
  t.throws(() => addressText(Buffer.alloc(5)), WireError)
  t.equal(macText(macBytes('02:AB:00:00:00:0f')), '02:ab:00:00:00:0f')
  t.equal(macText(Buffer.alloc(16)), undefined)
})

t.test('an acknowledgement tells errno and the words of the kernel', async (t) => {
  const words = new Payload().text(1, 'mtu less than device minimum').finish()
  const request = encodeMessages([{ type: 16, flags: 0, payload: Buffer.alloc(40) }], 1, 0)
  const result = Buffer.alloc(4)
  result.writeInt32LE(-22)
  const outcome = (type: number, flags: number, ...parts: Buffer[]) =>
    decodeOutcome({ type, flags, sequence: 1, payload: Buffer.concat(parts) })
  const told = { errno: 22, extack: 'mtu less than device minimum' }
  t.same(outcome(NLMSG_ERROR, 0x300, result, request.subarray(0, 16), words), told, 'request capped')
  t.same(outcome(NLMSG_ERROR, 0x200, result, request, words), told, 'request echoed')
  t.same(outcome(NLMSG_DONE, 0x200, result, words), told, 'end of a dump')
  t.same(outcome(NLMSG_ERROR, 0x100, result, request.subarray(0, 16)), { errno: 22, extack: undefined })
  t.same(outcome(NLMSG_ERROR, 0x100, Buffer.alloc(4), request), { errno: 0, extack: undefined })
  t.same(outcome(NLMSG_DONE, 0), { errno: 0, extack: undefined })
  t.throws(() => outcome(NLMSG_ERROR, 0, Buffer.alloc(3)), WireError)
  request.writeUInt32LE(0x90000000)
  t.throws(() => outcome(NLMSG_ERROR, 0x200, result, request, words), WireError, 'length beyond the message')
})

t.test('a dump is complete at its end, and void when interrupted or truncated', async (t) => {
  const piece = (type: number, flags: number, payload: Buffer = Buffer.alloc(4)) =>
    encodeMessages([{ type, flags, payload }], 5, 0)
  const stale = encodeMessages([{ type: 99, flags: 0, payload: Buffer.from('old!') }], 4, 0)
  const collect = () => new Collected(5, ({ payload }) => payload.toString())

  const whole = collect()
  whole.add(Buffer.concat([stale, piece(99, 0, Buffer.from('row1'))]), false)
  t.equal(whole.complete, false)
  whole.add(piece(NLMSG_DONE, 0), false)
  t.equal(whole.complete, true)
  t.same(whole.rows(), ['row1'], 'answers to another question are not rows')

  const interrupted = collect()
  interrupted.add(piece(99, NLM_F_DUMP_INTR), false)
  interrupted.add(piece(NLMSG_DONE, 0), false)
  t.equal(interrupted.rows(), undefined)

  const truncated = collect()
  truncated.add(piece(99, 0), true)
  truncated.add(piece(NLMSG_DONE, 0), false)
  t.equal(truncated.complete, true, 'read to the end all the same')
  t.throws(() => truncated.rows(), { code: 'ENOBUFS' })

  const refused = collect()
  const result = Buffer.alloc(4)
  result.writeInt32LE(-95)
  refused.add(piece(NLMSG_ERROR, 0, Buffer.concat([result, Buffer.alloc(16)])), false)
  t.equal(refused.complete, true)
  t.throws(() => refused.rows(), { code: 'ENOTSUP' })
})

t.test('any list of attributes survives the way there and back', async (t) => {
  const list = fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 0x3fff }), fc.uint8Array({ maxLength: 64 })), {
    selector: ([type]) => type,
    maxLength: 20,
  })
  fc.assert(
    fc.property(list, (attributes) => {
      const payload = new Payload()
      for (const [type, value] of attributes) payload.bytes(type, value)
      const read = new Attributes(payload.finish(), 0)
      return attributes.every(([type, value]) => read.bytes(type)?.equals(value))
    }),
    RUNS,
  )
  t.ok(true, `${RUNS.numRuns} lists`)
})

t.test('malformed input is a WireError and never anything else', async (t) => {
  t.throws(() => decodeMessages(Buffer.from('00000000000000000000000000000000', 'hex')), WireError, 'length 0')
  t.throws(() => new Attributes(Buffer.from('0000010000000000', 'hex'), 0), WireError, 'attribute of length 0')
  t.throws(() => new Attributes(Buffer.alloc(3), 4), WireError, 'no room for the header')
  t.throws(() => new Attributes(new Payload().u8(1, 1).finish(), 0).u32(1), WireError, 'of another size')
  t.throws(() => encodeFilter(4, { src: '1.2.3' }), RangeError)

  const readers = [
    decodeMessages,
    decodeLink,
    decodeAddress,
    decodeRoute,
    decodeNeighbour,
    decodeConntrack,
    (payload: Buffer) => decodeOutcome({ type: NLMSG_ERROR, flags: 0x200, sequence: 0, payload }),
    (payload: Buffer) => decodeOutcome({ type: NLMSG_DONE, flags: 0x200, sequence: 0, payload }),
  ]
  const readAll = (bytes: Buffer) => {
    for (const read of readers) {
      try {
        read(bytes)
      } catch (error) {
        if (!(error instanceof WireError)) throw error
      }
    }
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => readAll(Buffer.from(bytes))),
    RUNS,
  )

  const valid = [
    createVeth({ name: 'sta', mac: '02:00:00:00:00:01', mtu: 1500, group: 1 }, { name: 'stb' }).payload,
    createBridge({ name: 'br-work', stp: false, netfilter: false }).payload,
    addAddress({ index: 1, cidr: 'fd00::1/64', noDad: true }).payload,
    addRoute({ dst: '10.0.0.0/8', gateway: 'fe80::1', oif: 1, metric: 5, table: 1000 }).payload,
    addNeighbour({ index: 1, address: '10.0.0.1', mac: '02:00:00:00:00:01' }).payload,
    encodeDeletion(connection),
  ].map((bytes) => Buffer.from(bytes))
  const change = fc.tuple(fc.nat(400), fc.integer({ min: 0, max: 255 }))
  fc.assert(
    fc.property(fc.constantFrom(...valid), fc.array(change, { maxLength: 6 }), fc.nat(400), (bytes, changes, end) => {
      const mutated = Buffer.from(bytes.subarray(0, Math.max(1, end)))
      for (const [at, value] of changes) mutated[at % mutated.length] = value
      readAll(mutated)
    }),
    RUNS,
  )
})

t.test('padding is the next multiple of four, for any length', async (t) => {
  t.same([0, 1, 4, 5, 0xfffffffd].map(align), [0, 4, 4, 8, 0x100000000])
})
