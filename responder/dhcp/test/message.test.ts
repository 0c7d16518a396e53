/** DHCP messages as bytes: what is read, and what is no message. */
import t from 'tap'
import { readRequest } from '../message.ts'
import { ask, MAC, optionBytes } from './client.ts'

t.test('a request is read field by field', async (t) => {
  const request = readRequest(
    ask({ type: 3, xid: 0xdeadbeef, flags: 0x8000, ciaddr: '10.0.0.5', wants: '10.0.0.6', server: '10.0.0.1' }),
  )
  t.match(request, { type: 3, xid: 0xdeadbeef, flags: 0x8000, ciaddr: 0x0a000005, giaddr: 0, mac: MAC })
  t.same(
    Array.from(request?.options ?? [], ([code, value]) => [code, value.toString('hex')]),
    [
      [53, '03'],
      [50, '0a000006'],
      [54, '0a000001'],
    ],
  )
})

t.test('options in the fields file and sname are read where option 52 says so, in this order', async (t) => {
  const part = (text: string) => optionBytes([[12, Buffer.from(text)]])
  const message = (overload: number) => {
    const bytes = ask({
      options: [
        [52, Buffer.from([overload])],
        [12, Buffer.from('a')],
      ],
    })
    bytes.set([...part('b'), 255], 108)
    bytes.set([...part('c'), 255], 44)
    return bytes
  }
  const hostname = (overload: number) => readRequest(message(overload))?.options.get(12)?.toString()
  t.same([hostname(1), hostname(2), hostname(3)], ['ab', 'ac', 'abc'], 'and parts are joined (RFC 3396)')
  t.equal(readRequest(message(0)), undefined)
  t.equal(readRequest(message(4)), undefined)
  const bad = message(1)
  bad.set([12, 200], 108)
  t.equal(readRequest(bad), undefined, 'an option that reaches beyond its field')
})

t.test('what is not well-formed is no message', async (t) => {
  const changed = (change: (bytes: Buffer) => void) => {
    const bytes = ask()
    change(bytes)
    return readRequest(bytes)
  }
  t.ok(
    changed(() => {}),
    'control: it is one as it is',
  )
  t.equal(readRequest(ask().subarray(0, 239)), undefined, 'too short')
  t.equal(
    changed((it) => void it.writeUInt8(2)),
    undefined,
    'a reply',
  )
  t.equal(
    changed((it) => void it.writeUInt8(6, 1)),
    undefined,
    'hardware that is not Ethernet',
  )
  t.equal(
    changed((it) => void it.writeUInt8(16, 2)),
    undefined,
    'an address of another length',
  )
  t.equal(
    changed((it) => void it.writeUInt32BE(0, 236)),
    undefined,
    'no cookie: BOOTP',
  )
  t.equal(
    changed((it) => void it.writeUInt8(0, 240)),
    undefined,
    'no type',
  )
  t.equal(
    changed((it) => void it.writeUInt8(90, 241)),
    undefined,
    'an option beyond the end',
  )
  t.equal(readRequest(ask({ mac: '03:00:00:00:00:01' })), undefined, 'a client with a group address')
  t.equal(readRequest(ask({ mac: '00:00:00:00:00:00' })), undefined, 'a client without one')
  t.ok(
    changed((it) => void it.fill(0, 243)),
    'no end: some clients send none',
  )
})
