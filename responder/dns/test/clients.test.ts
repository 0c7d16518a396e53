/** The server as `dig` sees it, over both transports and both families. */
import '../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { addAddresses, dig, record, serve, undone, zone } from './serve.ts'

const ZONE = 'example.org.'
const SERVERS = ['10.0.0.53', 'fd00::53']
requireRoot(t)
addAddresses()

const long = 'x'.repeat(600)
const RECORDS = [
  record(ZONE, '@ NS ns1.example.org.'),
  record(ZONE, 'ns1 A 10.0.0.53'),
  record(ZONE, 'www A 192.0.2.1', '', 60),
  record(ZONE, 'www A 192.0.2.2', '', 60),
  record(ZONE, 'www AAAA 2001:db8::1'),
  record(ZONE, 'alias CNAME www.example.org.'),
  record(ZONE, 'away CNAME www.example.net.'),
  record(ZONE, 'hole CNAME nothing.example.org.'),
  record(ZONE, 'loop1 CNAME loop2.example.org.'),
  record(ZONE, 'loop2 CNAME loop1.example.org.'),
  record(ZONE, '@ MX 10 mail.example.org.'),
  record(ZONE, 'text TXT two words "and" quotes; é'),
  record(ZONE, `long TXT ${long}`),
  record(ZONE, '_sip._tcp SRV 1 2 5060 www.example.org.'),
  record(ZONE, 'zero A 192.0.2.9', '', 0),
  record(ZONE, 'sub NS ns.sub.example.org.'),
  record(ZONE, 'sub NS ns.example.com.'),
  record(ZONE, 'ns.sub A 192.0.2.53'),
  ...Array.from({ length: 100 }, (_, n) => record(ZONE, `many A 198.51.100.${n + 1}`)),
]

t.test('dns-10 D55 every type is answered over UDP and TCP, IPv4 and IPv6, with its TTL', async (t) => {
  const dns = await serve(t, SERVERS)
  dns.apply([zone(ZONE), zone('2.0.192.in-addr.arpa.'), ...RECORDS])
  dns.apply([record('2.0.192.in-addr.arpa.', '1 PTR www.example.org.')])
  const EXPECTED: [string, string[]][] = [
    ['www.example.org A', ['www.example.org. 60 IN A 192.0.2.1', 'www.example.org. 60 IN A 192.0.2.2']],
    ['www.example.org AAAA', ['www.example.org. 300 IN AAAA 2001:db8::1']],
    ['1.2.0.192.in-addr.arpa PTR', ['1.2.0.192.in-addr.arpa. 300 IN PTR www.example.org.']],
    ['alias.example.org CNAME', ['alias.example.org. 300 IN CNAME www.example.org.']],
    ['example.org MX', ['example.org. 300 IN MX 10 mail.example.org.']],
    ['text.example.org TXT', ['text.example.org. 300 IN TXT "two words \\"and\\" quotes; \\195\\169"']],
    ['example.org NS', ['example.org. 300 IN NS ns1.example.org.']],
    ['_sip._tcp.example.org SRV', ['_sip._tcp.example.org. 300 IN SRV 1 2 5060 www.example.org.']],
    ['zero.example.org A', ['zero.example.org. 0 IN A 192.0.2.9']],
    [
      'example.org SOA',
      ['example.org. 3600 IN SOA ns1.example.org. hostmaster.example.org. 2024010101 3600 600 604800 300'],
    ],
    [
      'alias.example.org AAAA',
      ['alias.example.org. 300 IN CNAME www.example.org.', 'www.example.org. 300 IN AAAA 2001:db8::1'],
    ],
    ['away.example.org A', ['away.example.org. 300 IN CNAME www.example.net.']],
    [
      'loop1.example.org A',
      ['loop1.example.org. 300 IN CNAME loop2.example.org.', 'loop2.example.org. 300 IN CNAME loop1.example.org.'],
    ],
  ]
  for (const server of SERVERS) {
    for (const transport of ['+notcp', '+tcp']) {
      for (const [question, expected] of EXPECTED) {
        const { status, flags, answer, text } = await dig(server, transport, ...question.split(' '))
        t.same([status, flags.includes('aa'), answer], ['NOERROR', true, expected], `${server} ${transport} ${text}`)
      }
    }
  }
  const [first = ''] = SERVERS
  const { answer } = await dig(first, 'long.example.org', 'TXT')
  t.equal(answer[0], `long.example.org. 300 IN TXT "${'x'.repeat(255)}" "${'x'.repeat(255)}" "${'x'.repeat(90)}"`)
})

t.test('D53 what is not answered with data says why', async (t) => {
  const dns = await serve(t, SERVERS)
  dns.apply([zone(ZONE), ...RECORDS])
  const at = SERVERS[0] ?? ''
  const SOA = /^example.org. 300 IN SOA /
  const status = async (...args: string[]) => (await dig(at, ...args)).status

  t.equal(await status('www.example.net', 'A'), 'REFUSED')
  t.equal(await status('.', 'NS'), 'REFUSED')
  t.equal(await status('example.org', 'AXFR', '+noall', '+comments'), 'REFUSED', 'no transfer of zones')
  t.equal(await status('version.bind', 'TXT', '-c', 'CH'), 'REFUSED')
  t.equal(await status('+opcode=notify', 'example.org', 'SOA'), 'NOTIMP')
  t.equal(await status('+opcode=update', 'example.org', 'SOA'), 'NOTIMP')
  t.equal(await status('+edns=1', '+noednsneg', 'www.example.org', 'A'), 'BADVERS')
  t.equal(await status('+ednsopt=65001:abcd', '+nsid', '+cookie', 'www.example.org', 'A'), 'NOERROR', 'options')

  const missing = await dig(at, 'nothing.example.org', 'A')
  t.same([missing.status, missing.flags], ['NXDOMAIN', ['qr', 'aa', 'rd']])
  t.match(missing.authority, [SOA])
  const empty = await dig(at, '_tcp.example.org', 'A')
  t.equal(empty.status, 'NOERROR', 'an empty non-terminal exists')
  t.match(empty.authority, [SOA])
  const hole = await dig(at, 'hole.example.org', 'A')
  t.same([hole.status, hole.answer.length], ['NXDOMAIN', 1])
  t.match(hole.authority, [SOA])
  const any = await dig(at, 'www.example.org', 'ANY', '+notcp')
  t.match(any.answer, [/ A /, / A /], 'ANY gets one set')
  t.equal(any.answer.length, 2)

  const referral = await dig(at, 'host.sub.example.org', 'A')
  t.same([referral.status, referral.flags, referral.answer], ['NOERROR', ['qr', 'rd'], []])
  t.same(referral.authority, [
    'sub.example.org. 300 IN NS ns.sub.example.org.',
    'sub.example.org. 300 IN NS ns.example.com.',
  ])
  t.same(referral.additional, ['ns.sub.example.org. 300 IN A 192.0.2.53'])
  t.same((await dig(at, 'sub.example.org', 'NS')).flags, ['qr', 'rd'], 'a cut is no data of this zone')

  const cased = await dig(at, 'wWw.eXample.oRg', 'AAAA')
  t.match(cased.text, /^;wWw\.eXample\.oRg\./m, 'letters come back as they were sent (0x20)')
  t.same(cased.answer, ['wWw.eXample.oRg. 300 IN AAAA 2001:db8::1'])
})

t.test('D53 what does not fit is truncated, and comes whole over TCP', async (t) => {
  const dns = await serve(t, SERVERS)
  dns.apply([zone(ZONE), ...RECORDS])
  for (const server of SERVERS) {
    const sizes = async (...args: string[]) => {
      const { flags, answer, text } = await dig(server, '+ignore', ...args)
      return [flags.includes('tc'), answer.length, Number(/MSG SIZE +rcvd: (\d+)/.exec(text)?.[1]) <= 1232]
    }
    t.same(await sizes('many.example.org', 'A', '+bufsize=4096'), [true, 0, true])
    t.same(await sizes('long.example.org', 'TXT', '+noedns'), [true, 0, true])
    t.same(await sizes('long.example.org', 'TXT', '+bufsize=600'), [true, 0, true])
    t.same(await sizes('long.example.org', 'TXT', '+bufsize=1232'), [false, 1, true])
    t.same(await sizes('www.example.org', 'A', '+bufsize=0'), [false, 2, true], 'less than 512 means 512')
    t.equal((await dig(server, 'many.example.org', 'A')).answer.length, 100, 'dig asks again over TCP by itself')
  }
})

t.test('dns-11 dns-12 D57 a client gets what is for its smallest subnet, else what is for everybody', async (t) => {
  const dns = await serve(t, SERVERS)
  dns.apply([
    zone(ZONE),
    record(ZONE, 'app A 192.0.2.1'),
    record(ZONE, 'app A 192.0.2.10', '10.0.0.0/8'),
    record(ZONE, 'app A 192.0.2.11', '10.1.0.0/16'),
    record(ZONE, 'app A 192.0.2.12', '10.1.2.0/24'),
    record(ZONE, 'app AAAA 2001:db8::1'),
    record(ZONE, 'app AAAA 2001:db8::2', 'fd01::/16'),
    record(ZONE, 'inner A 192.0.2.20', '10.1.2.0/24'),
    record(ZONE, 'deep.inner2 A 192.0.2.21', '10.1.2.0/24'),
  ])
  const ask = async (from: string, name: string, type: string) => {
    const [four = '', six = ''] = SERVERS
    const { status, answer } = await dig(from.includes(':') ? six : four, '-b', from, name, type)
    return answer.map((line) => line.split(' ').at(-1)).join() || status
  }
  t.equal(await ask('10.7.7.7', 'app.example.org', 'A'), '192.0.2.10')
  t.equal(await ask('10.1.9.9', 'app.example.org', 'A'), '192.0.2.11')
  t.equal(await ask('10.1.2.3', 'app.example.org', 'A'), '192.0.2.12')
  t.equal(await ask('10.1.2.3', 'app.example.org', 'AAAA'), '2001:db8::1', 'by type')
  t.equal(await ask('fd01::9', 'app.example.org', 'AAAA'), '2001:db8::2')
  t.equal(await ask('fd01::9', 'app.example.org', 'A'), '192.0.2.1')
  t.equal(await ask('10.1.2.3', 'inner.example.org', 'A'), '192.0.2.20')
  t.equal(await ask('10.1.9.9', 'inner.example.org', 'A'), 'NXDOMAIN', 'it exists for its subnet alone')
  t.equal(await ask('10.1.2.3', 'inner2.example.org', 'A'), 'NOERROR')
  t.equal(await ask('10.1.9.9', 'inner2.example.org', 'A'), 'NXDOMAIN')
  const scoped = record(ZONE, 'app A 192.0.2.12', '10.1.2.0/24')
  dns.apply([undone(scoped)])
  t.equal(await ask('10.1.2.3', 'app.example.org', 'A'), '192.0.2.11', 'the next one counts at once')
})

t.test('dns-04 dns-14 what is removed is gone at once, and a zone in a zone answers for itself', async (t) => {
  const dns = await serve(t, SERVERS)
  const www = record(ZONE, 'www A 192.0.2.1')
  const at = SERVERS[0] ?? ''
  const status = async (name: string) => (await dig(at, name, 'A')).status
  dns.apply([zone(ZONE), www])
  t.equal(await status('www.example.org'), 'NOERROR')
  dns.apply([undone(www)])
  t.equal(await status('www.example.org'), 'NXDOMAIN')
  dns.apply([zone('a.b.example.org.')])
  t.equal(await status('b.example.org'), 'NOERROR', 'something lies below it')
  t.equal(await status('x.a.b.example.org'), 'NXDOMAIN')
  t.same((await dig(at, 'x.a.b.example.org', 'A')).authority.length, 1)
  t.match((await dig(at, 'a.b.example.org', 'DS')).authority, [/^example\.org\. /], 'the outer zone knows of its keys')
  dns.apply([undone(zone(ZONE))])
  t.equal(await status('www.example.org'), 'REFUSED')
  t.equal(await status('x.a.b.example.org'), 'NXDOMAIN')
  dns.apply([undone(zone('a.b.example.org.'))])
  t.equal(await status('x.a.b.example.org'), 'REFUSED')
  t.match(dns.stats(), { zones: 0, records: 0 })
})

t.test('a zone without NS of the operator has the server that its SOA names', async (t) => {
  const dns = await serve(t, SERVERS)
  const own = record(ZONE, '@ NS ns.example.net.')
  const at = SERVERS[0] ?? ''
  const servers = async () => (await dig(at, 'example.org', 'NS')).answer
  dns.apply([zone(ZONE)])
  t.same(await servers(), ['example.org. 3600 IN NS ns1.example.org.'])
  dns.apply([own])
  t.same(await servers(), ['example.org. 300 IN NS ns.example.net.'])
})
