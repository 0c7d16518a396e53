/** Requests of strangers: whatever comes, the answer is well-formed, bounded, and soon there. FUZZ says how many. */
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { newCsk } from '../keys.ts'
import { TYPE } from '../rdata.ts'
import { openAsking } from './asking.ts'
import { decode, request } from './message.ts'
import { record, zone } from './serve.ts'

const REQUESTS = Number(process.env.FUZZ ?? 10_000)
const SEED = Number(process.env.SEED ?? 1)

t.test('no request ends the server, gets too long an answer, or takes long', async (t) => {
  const random = chance(SEED)
  const below = (limit: number) => Math.floor(random() * limit)
  const pick = <T>(list: readonly T[]) => list[below(list.length)] as T
  const { ask, zones, counters } = openAsking({ ticks: () => performance.now() })
  const content = [
    record('z.', 'www A 192.0.2.1'),
    record('z.', 'www A 192.0.2.2', '10.0.0.0/8'),
    record('z.', 'sub NS ns.sub.z.'),
    record('z.', 'a CNAME b.z.'),
    record('z.', 'b CNAME a.z.'),
    ...Array.from({ length: 200 }, (_, n) => record('z.', `many TXT ${'x'.repeat(200)}${n}`)),
    ...Array.from({ length: 400 }, (_, n) => record('z.', `more TXT ${'x'.repeat(200)}${n}`)),
  ]
  zones.apply([zone('z.', newCsk()), zone('y.'), ...content])
  const NAMES = ['www.z.', 'sub.z.', 'x.sub.z.', 'a.z.', 'nothing.z.', 'many.z.', 'more.z.', 'y.', 'o.', '.']
  const names = [...NAMES, `${'\xff'.repeat(63)}.z.`, `${'\0'.repeat(63)}.z.`, '\0.z.', `${'a.'.repeat(120)}z.`]
  const types = [...Object.values(TYPE), 0, 99, 65_535]
  const sources = [Buffer.from([10, 1, 1, 1]), Buffer.from([192, 0, 2, 1]), Buffer.alloc(16, 7)]
  const mutate = (bytes: Buffer): Buffer => {
    const changed = Buffer.from(bytes)
    if (changed.length < 2) return changed
    switch (below(6)) {
      case 0:
        return changed
      case 1:
        return changed.subarray(0, below(changed.length + 1))
      case 2:
        return Buffer.concat([changed, Buffer.from(Array.from({ length: below(40) }, () => below(256)))])
      case 3:
        // Pointers, to anywhere and to themselves.
        changed.writeUInt16BE(0xc000 | below(changed.length), below(changed.length - 1))
        return changed
      default:
        for (let n = below(4); n >= 0; n--) changed[below(changed.length)] = below(256)
        return changed
    }
  }
  const slow = { most: 0 }
  const before = process.memoryUsage().rss
  for (let n = 0; n < REQUESTS; n++) {
    const asking = { id: below(65_536), type: pick(types), edns: below(2) === 0, secure: below(2) === 0 }
    const made = below(8) === 0 ? Buffer.from(Array.from({ length: below(64) }, () => below(256))) : undefined
    const bytes = mutate(made ?? request(pick(names), { ...asking, udpSize: below(65_536) }))
    const overTcp = below(4) === 0
    const start = process.cpuUsage()
    const answer = ask(bytes, pick(sources), overTcp)
    const { user, system } = process.cpuUsage(start)
    slow.most = Math.max(slow.most, user + system)
    if (answer === undefined) {
      if (bytes.length >= 12 && (bytes[2] as number) < 0x80) t.fail(`silence: ${bytes.toString('hex')}`)
      continue
    }
    const decoded = decode(answer)
    if (decoded.id !== bytes.readUInt16BE(0) || (!overTcp && answer.length > 1232)) t.fail(bytes.toString('hex'))
  }
  t.equal(counters.udp + counters.tcp + counters.dropped, REQUESTS)
  t.ok(counters.noerror > 0 && counters.nxdomain > 0 && counters.refused > 0 && counters.formerr > 0)
  t.ok(counters.servfail > 0, 'what no message can hold')
  t.ok(process.memoryUsage().rss - before < 300 << 20)
  t.ok(slow.most < 100_000, 'us of CPU')
  t.comment(`${REQUESTS} requests, the slowest ${slow.most} us of CPU; ${JSON.stringify(counters)}`)
})

t.test('numbers of bytes that no name can have are refused where they begin', async (t) => {
  const { ask, zones } = openAsking()
  zones.apply([zone('z.')])
  const source = Buffer.from([192, 0, 2, 1])
  const rcode = (bytes: Buffer) => decode(ask(bytes, source) ?? Buffer.alloc(0)).rcode
  const good = request('www.z.', { edns: true })
  t.equal(rcode(good), 3)
  t.equal(rcode(Buffer.concat([good, Buffer.from([0])])), 1, 'something behind the message')
  t.equal(rcode(good.subarray(0, 12)), 1, 'no question')
  t.equal(rcode(good.subarray(0, good.length - 1)), 1, 'half an OPT')
  const two = Buffer.concat([good, good.subarray(good.length - 11)])
  two.writeUInt16BE(2, 10)
  t.equal(rcode(two), 1, 'two OPT')
  const questions = Buffer.from(good)
  questions.writeUInt16BE(2, 4)
  t.equal(rcode(questions), 1, 'two questions')
  t.equal(rcode(request(`${'a.'.repeat(127)}z.`)), 1, '257 octets')
  t.equal(rcode(request(`${'a.'.repeat(126)}z.`)), 3, '255 octets')
  t.equal(ask(Buffer.from([0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]), source), undefined, 'an answer gets none')
})
