/** What strangers may make the server spend. */
import t from 'tap'
import { newCsk } from '../keys.ts'
import { LIMITS, openBuckets } from '../limits.ts'
import { TYPE } from '../rdata.ts'
import { MANY, openAsking } from './asking.ts'
import { decode, request } from './message.ts'
import { record, zone } from './serve.ts'

const source = (n: number) => Buffer.from([10, n >> 8, n & 255, 1])

t.test('a flood of names that do not exist cannot make the server sign for more than its share', async (t) => {
  const clock = { now: 0 }
  const limits = { signatures: { rate: 10, burst: 20 }, prefixSignatures: { rate: 5, burst: 10 } }
  const { ask, zones, signer, counters } = openAsking({ limits, ticks: () => clock.now })
  zones.apply([zone('z.', newCsk()), record('z.', 'www A 192.0.2.1')])
  const flood = (from: Buffer, name: string, overTcp = false) => {
    const { truncated, rcode } = decode(ask(request(`${name}.z.`, { secure: true }), from, overTcp) ?? Buffer.alloc(0))
    return truncated ? 'truncated' : String(rcode)
  }
  t.equal(flood(source(1), 'n1'), '3')
  t.equal(signer.made(), 3, 'SOA, wildcard, name')
  for (let n = 2; n <= 8; n++) t.equal(flood(source(1), `n${n}`), '3')
  t.equal(flood(source(1), 'n9'), 'truncated', 'its prefix has used up its share: it may come over TCP')
  t.equal(flood(source(1), 'n8'), '3', 'what was signed is answered all the same')
  t.equal(flood(source(2), 'm1'), '3', 'another prefix has its own')
  for (let n = 0; n < 100; n++) flood(source(100 + n), `f${n}`)
  t.equal(signer.made(), 20, 'all together have no more than that')
  t.equal(flood(source(300), 'late'), 'truncated')
  t.equal(flood(source(301), 'late', true), '3', 'forged addresses leave TCP alone')
  const unsigned = decode(ask(request('late.z.'), source(1)) ?? Buffer.alloc(0))
  t.equal(unsigned.rcode, 3, 'nothing is signed without the DO bit')
  t.ok(counters.limited > 0)
  clock.now += 1000
  t.equal(flood(source(300), 'late'), '3')
})

t.test('large answers to one prefix are truncated over UDP beyond a rate, and never over TCP', async (t) => {
  const clock = { now: 0 }
  const { ask, zones } = openAsking({ limits: { largeAnswers: { rate: 10, burst: 3 } }, ticks: () => clock.now })
  zones.apply([zone('z.'), record('z.', `big TXT ${'x'.repeat(700)}`), record('z.', 'small A 192.0.2.1')])
  const big = request('big.z.', { type: TYPE.TXT, edns: true })
  const size = (from: Buffer, overTcp = false) => ask(big, from, overTcp)?.length ?? 0
  for (let n = 0; n < 3; n++) t.ok(size(source(n)) > 700 || n > 0)
  while (size(source(7)) > 512);
  t.equal(size(source(7)), big.length, 'no larger than the question')
  t.ok(size(source(7), true) > 700)
  t.equal(decode(ask(request('small.z.'), source(7)) ?? Buffer.alloc(0)).answers.length, 1)
  clock.now += 1000
  t.ok(size(source(7)) > 700)
})

t.test('a bucket fills at its rate and no further than its burst', async (t) => {
  const clock = { now: 0 }
  const { take } = openBuckets({ rate: 2, burst: 3 }, () => clock.now)
  const taken = (key: number) => {
    let count = 0
    while (count < 100 && take(key)) count++
    return count
  }
  t.equal(taken(5), 3)
  t.equal(taken(6), 3)
  clock.now += 1000
  t.equal(taken(5), 2)
  clock.now += 1_000_000
  t.equal(taken(5), 3)
  const many = openBuckets(MANY, () => clock.now)
  t.equal(many.take(0xffff_ffff), true)
})

t.test('a flood under one address gets little more than it sends, and who did ask may come over TCP', async (t) => {
  const clock = { now: 0 }
  const { ask, zones, counters } = openAsking({ limits: { octets: LIMITS.octets }, ticks: () => clock.now })
  zones.apply([zone('z.', newCsk()), record('z.', 'www A 192.0.2.1')])
  const victim = source(1)
  const question = request('no.z.', { secure: true })
  t.ok((ask(question, victim)?.length ?? 0) > 400, 'control: signed, and below 512 octets')
  const flood = (times: number) => {
    const sent = { asked: 0, told: 0, whole: 0, truncated: 0 }
    for (let n = 0; n < times; n++) {
      clock.now += 1000 / times
      const answer = ask(question, victim)
      sent.asked += question.length + 28
      if (answer === undefined) continue
      sent.told += answer.length + 28
      if (decode(answer).truncated) sent.truncated++
      else sent.whole++
    }
    return sent
  }
  const [first, second] = [flood(2500), flood(2500)]
  t.ok(first.told < 1.5 * first.asked, `the first second: ${first.told} for ${first.asked} octets`)
  t.ok(second.told < second.asked, `the second: ${second.told} for ${second.asked} octets`)
  t.ok(second.whole > 100, 'some are whole')
  t.ok(
    Math.abs(second.truncated - (2500 - second.whole) / 2) <= 1,
    'every second one of the others is sent without content',
  )
  t.ok((ask(question, victim, true)?.length ?? 0) > 400, 'TCP has no such limit')
  t.ok((ask(question, source(2))?.length ?? 0) > 400, 'another prefix has its own')
  t.ok((ask(question, Buffer.from([127, 0, 0, 1]))?.length ?? 0) > 400)
  t.ok(counters.limited > 2500)
  clock.now += 1000
  t.ok((ask(question, victim)?.length ?? 0) > 400)
})
