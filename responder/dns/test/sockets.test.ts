/** What the sockets do under many clients, slow ones, hostile ones, and when addresses come and go. */
import '../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import type { DnsListener } from '../../../dataplane/responder/entries.ts'
import { requireRoot } from '../../../test/netns.ts'
import { openDns } from '../dns.ts'
import { TYPE } from '../rdata.ts'
import { decode, request } from './message.ts'
import { addAddresses, dig, PORT, record, serve, zone } from './serve.ts'

const AT = '10.0.0.53'
requireRoot(t)
addAddresses()

/** Requests of a client: no more answers than its receive buffer holds. */
const EACH = 150

const listener = (address: string, port = PORT): DnsListener => ({ kind: 'dns_listener', key: address, address, port })
const content = [
  zone('z.'),
  record('z.', 'www A 192.0.2.1'),
  ...Array.from({ length: 50 }, (_, n) => record('z.', `big TXT ${'x'.repeat(250)}${n}`)),
]
const framed = (bytes: Buffer) => Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes])

/** Reads answers until there are so many, or the connection ends. */
async function answers(socket: Socket, count: number): Promise<Buffer[]> {
  const found: Buffer[] = []
  let waiting = Buffer.alloc(0)
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    waiting = Buffer.concat([waiting, chunk])
    while (waiting.length >= 2 && waiting.length >= 2 + waiting.readUInt16BE(0)) {
      const end = 2 + waiting.readUInt16BE(0)
      found.push(waiting.subarray(2, end))
      waiting = waiting.subarray(end)
    }
    if (found.length >= count) break
  }
  return found
}

t.test('more datagrams than one batch are all answered, to whom they came from', async (t) => {
  const dns = await serve(t, [AT, 'fd00::53'])
  dns.apply(content)
  for (const [type, address] of [
    ['udp4', AT],
    ['udp6', 'fd00::53'],
  ] as const) {
    const clients = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const socket = createSocket(type)
        t.teardown(() => socket.close())
        await new Promise<void>((resolve) => socket.connect(PORT, address, resolve))
        return socket
      }),
    )
    const results = await Promise.all(
      clients.map(async (socket, client) => {
        const ids = new Set<number>()
        const all = new Promise<void>((resolve) => {
          socket.on('message', (bytes) => {
            ids.add(decode(bytes).id)
            if (ids.size === EACH) resolve()
          })
        })
        for (let n = 0; n < EACH; n++) {
          // Nothing is answered to this one, in the middle of a batch.
          if (n % 7 === 0) socket.send(Buffer.from('no request'))
          socket.send(request('www.z.', { id: client * 1000 + n }))
        }
        await all
        return [...ids].every((id) => Math.floor(id / 1000) === client)
      }),
    )
    t.same(results, [true, true, true, true], type)
  }
  t.equal(dns.stats().dropped, 2 * 4 * Math.ceil(EACH / 7))
})

t.test('at a wildcard address the answer leaves from the address that was asked', async (t) => {
  for (const [wildcard, addresses] of [
    ['0.0.0.0', [AT, '127.0.0.1', '10.1.2.3']],
    ['::', ['fd00::53', '::1']],
  ] as const) {
    const dns = await serve(t, [wildcard])
    dns.apply(content)
    // dig takes an answer from no other address.
    for (const address of addresses) t.equal((await dig(address, 'www.z', 'A')).answer.length, 1, address)
    await dns.close()
  }
})

t.test('an address can be bound before the node has it', async (t) => {
  await serve(t, ['10.200.0.1', 'fd02::1']).then((dns) => dns.apply(content))
  execFileSync('ip', ['address', 'add', '10.200.0.1/32', 'dev', 'lo'])
  execFileSync('ip', ['address', 'add', 'fd02::1/128', 'dev', 'lo', 'nodad'])
  for (const address of ['10.200.0.1', 'fd02::1']) {
    for (const transport of ['+notcp', '+tcp']) t.equal((await dig(address, transport, 'www.z', 'A')).answer.length, 1)
  }
})

t.test('listeners are opened all or not at all, and the operator is told what is in the way', async (t) => {
  const dns = openDns()
  t.teardown(() => dns.close())
  dns.apply(content)
  const other = createSocket('udp4')
  await new Promise<void>((resolve) => other.bind(PORT, '127.0.0.1', resolve))
  await t.rejects(dns.applyListeners([{ after: listener(AT) }, { after: listener('127.0.0.1') }]), {
    message: 'cannot bind 127.0.0.1:53: address already in use (is another DNS server running?)',
  })
  t.equal(dns.stats().listeners, 0)
  other.close()
  await once(other, 'close')
  await dns.applyListeners([{ after: listener(AT) }, { after: listener('127.0.0.1') }])
  await dns.applyListeners([{ before: listener(AT), after: listener(AT) }, { before: listener('127.0.0.1') }])
  t.equal(dns.stats().listeners, 1)
  t.equal((await dig(AT, 'www.z', 'A')).status, 'NOERROR')
  t.equal((await dig('127.0.0.1', '+time=1', 'www.z', 'A')).status, '', 'nobody is there any more')
  // The place can be taken at once, also after connections.
  t.equal((await dig(AT, '+tcp', 'www.z', 'A')).status, 'NOERROR')
  await dns.applyListeners([{ before: listener(AT) }])
  await dns.applyListeners([{ after: listener(AT) }])
  t.equal((await dig(AT, '+tcp', 'www.z', 'A')).status, 'NOERROR')
})

t.test('opening and closing while datagrams come leaves nothing open', async (t) => {
  const dns = openDns()
  dns.apply(content)
  const files = () => readdirSync('/proc/self/fd').length
  const socket = createSocket('udp4')
  // Where nobody listens, the kernel says so.
  socket.on('error', () => {})
  const round = async () => {
    await dns.applyListeners([{ after: listener(AT) }])
    for (let n = 0; n < 50; n++) socket.send(request('www.z.'), PORT, AT)
    await new Promise((resolve) => setImmediate(resolve))
    await dns.applyListeners([{ before: listener(AT) }])
  }
  await round()
  const before = files()
  for (let n = 0; n < 30; n++) await round()
  t.equal(files(), before)
  socket.close()
  await dns.close()
})

t.test('a socket that somebody destroys is opened again', async (t) => {
  const told: string[] = []
  const dns = await serve(t, [AT], { onError: (error) => void told.push(String(error)) })
  dns.apply(content)
  execFileSync('ss', ['-K', '-u', '-a', `sport = :${PORT}`])
  const start = Date.now()
  while ((await dig(AT, '+time=1', 'www.z', 'A')).status !== 'NOERROR') {
    if (Date.now() - start > 60_000) return t.fail('nothing is answered any more')
  }
  t.match(told, [/^KernelError: ECONNABORTED/])
})

t.test('requests in one stream are answered in their order, in pieces or all at once, until its end', async (t) => {
  const dns = await serve(t, [AT])
  dns.apply(content)
  const requests = Array.from({ length: 500 }, (_, id) => framed(request('www.z.', { id })))
  const socket = connect(PORT, AT)
  socket.end(Buffer.concat(requests))
  const all = await answers(socket, Number.POSITIVE_INFINITY)
  t.same(
    all.map((bytes) => decode(bytes).id),
    requests.map((_, id) => id),
  )
  const slow = connect(PORT, AT)
  slow.setNoDelay(true)
  const one = framed(request('www.z.', { id: 7 }))
  for (let n = 0; n < one.length; n++) {
    slow.write(one.subarray(n, n + 1))
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(decode((await answers(slow, 1))[0] ?? Buffer.alloc(0)).id, 7)
  slow.destroy()
})

t.test(
  'a client that takes no answers is not read from, and one too many takes the place of the most silent',
  async (t) => {
    const dns = await serve(t, [AT])
    dns.apply(content)
    const greedy = connect(PORT, AT)
    greedy.on('error', () => {})
    greedy.pause()
    const one = framed(request('big.z.', { type: TYPE.TXT }))
    const many = Buffer.concat(Array.from({ length: 1000 }, () => one))
    // 12 kB of answers for each of 27,000: what is held for it stays small.
    for (let n = 0; n < 27; n++) greedy.write(many)
    const told = () => dns.stats().tcp
    for (let last = -1; last !== told(); await new Promise((resolve) => setTimeout(resolve, 300))) last = told()
    t.ok(told() > 0 && told() < 5000, `${told()} requests were read`)
    greedy.destroy()

    const idle = await Promise.all(
      Array.from({ length: 256 }, async () => {
        const socket = connect(PORT, AT)
        socket.on('error', () => {})
        await once(socket, 'connect')
        return socket
      }),
    )
    t.teardown(() => idle.forEach((socket) => void socket.destroy()))
    const [first, second] = idle as [Socket, Socket]
    first.write(framed(request('www.z.')))
    await answers(first, 1)
    const ended = once(second, 'close')
    second.resume()
    t.equal((await dig(AT, '+tcp', 'www.z', 'A')).status, 'NOERROR')
    await ended
    t.equal(first.destroyed, false, 'that one had asked')
    t.ok(dns.stats().connections <= 256)
  },
)
