/** Signed zones as validators see them: `delv` with the zone's key, `unbound` with its DS, inside and outside of a subnet. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { here } from '../../../test/inside.ts'
import { netnsNamed, requireRoot, type Scope } from '../../../test/netns.ts'
import { dnskeyOf, newCsk } from '../keys.ts'
import { addAddresses, client, dig, record, serve, undone, zone } from './serve.ts'

const ZONE = 'example.org.'
const AT = '10.0.0.53'
/** Serves what is delegated. */
const ELSEWHERE = '10.1.9.9'
const INSIDE = '10.1.2.3'
const OUTSIDE = '10.7.7.7'
const SUBNET = '10.1.2.0/24'
const CSK = newCsk()
const CHILD = newCsk()
requireRoot(t)
addAddresses()

const longest = 'a'.repeat(63)
const CONTENT = [
  zone(ZONE, CSK),
  zone('signed.example.org.', CHILD),
  zone('plain.example.org.'),
  zone('in.void.example.org.', CHILD),
  record('signed.example.org.', 'www A 192.0.2.31'),
  record('plain.example.org.', 'www A 192.0.2.32'),
  record('in.void.example.org.', 'www A 192.0.2.33'),
  record(ZONE, 'www A 192.0.2.1'),
  record(ZONE, 'www A 192.0.2.2'),
  record(ZONE, 'www A 192.0.2.10', SUBNET),
  record(ZONE, 'inner A 192.0.2.20', SUBNET),
  record(ZONE, 'only.hidden TXT for few', SUBNET),
  record(ZONE, 'mixed TXT for all'),
  record(ZONE, 'mixed A 192.0.2.21', SUBNET),
  record(ZONE, 'alias CNAME www.example.org.'),
  record(ZONE, 'dangling CNAME nothing.example.org.'),
  record(ZONE, '_sip._tcp SRV 1 2 5060 www.example.org.'),
  record(ZONE, '@ MX 10 mail.example.org.'),
  record(ZONE, 'text TXT two words'),
  record(ZONE, `${longest} A 192.0.2.5`),
  record(ZONE, 'sub NS ns.sub.example.org.'),
  record(ZONE, `ns.sub A ${ELSEWHERE}`),
]

/** What a validating client gets: the last field of each answer, or why there is none. */
const CASES: [question: string, inside: string, outside: string][] = [
  ['www.example.org A', '192.0.2.10', '192.0.2.1,192.0.2.2'],
  ['inner.example.org A', '192.0.2.20', 'NXDOMAIN'],
  ['inner.example.org TXT', 'NODATA', 'NXDOMAIN'],
  ['only.hidden.example.org TXT', '"for few"', 'NXDOMAIN'],
  ['hidden.example.org A', 'NODATA', 'NXDOMAIN'],
  ['mixed.example.org A', '192.0.2.21', 'NODATA'],
  ['mixed.example.org TXT', '"for all"', '"for all"'],
  ['alias.example.org A', '192.0.2.10,www.example.org.', '192.0.2.1,192.0.2.2,www.example.org.'],
  ['alias.example.org AAAA', 'NODATA', 'NODATA'],
  ['dangling.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['_tcp.example.org SRV', 'NODATA', 'NODATA'],
  ['_sip._tcp.example.org SRV', 'www.example.org.', 'www.example.org.'],
  ['_udp.example.org SRV', 'NXDOMAIN', 'NXDOMAIN'],
  ['example.org MX', 'mail.example.org.', 'mail.example.org.'],
  ['example.org AAAA', 'NODATA', 'NODATA'],
  ['example.org NS', 'ns1.example.org.', 'ns1.example.org.'],
  ['text.example.org TXT', '"two words"', '"two words"'],
  ['nothing.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['a.b.c.nothing.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['below.www.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['ww.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['www-.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['0.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['*.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  [`${'a'.repeat(62)}b.example.org A`, 'NXDOMAIN', 'NXDOMAIN'],
  [`${'b'.repeat(63)}.example.org A`, 'NXDOMAIN', 'NXDOMAIN'],
  [`${'b'.repeat(62)}.example.org A`, 'NXDOMAIN', 'NXDOMAIN'],
  [`${`${'c'.repeat(57)}.`.repeat(3)}${'c'.repeat(63)}.example.org A`, 'NXDOMAIN', 'NXDOMAIN'],
  ['www.signed.example.org A', '192.0.2.31', '192.0.2.31'],
  ['www.in.void.example.org A', '192.0.2.33', '192.0.2.33'],
  ['void.example.org A', 'NODATA', 'NODATA'],
  ['nothing.signed.example.org A', 'NXDOMAIN', 'NXDOMAIN'],
  ['signed.example.org DS', 'yes', 'yes'],
  ['plain.example.org DS', 'NODATA', 'NODATA'],
  ['sub.example.org DS', 'NODATA', 'NODATA'],
]
/** What is shown of an alias whose target has no answer: the proof behind it is validated too. */
const ALIAS_ONLY: Readonly<Record<string, string>> = {
  'alias.example.org AAAA': 'www.example.org.',
  'dangling.example.org A': 'nothing.example.org.',
}
/** Answered, and known not to be signed. */
const INSECURE: [question: string, answer: string][] = [
  ['www.plain.example.org A', '192.0.2.32'],
  ['nothing.plain.example.org A', 'NXDOMAIN'],
  ['www.sub.example.org A', '192.0.2.41'],
  ['nothing.sub.example.org A', 'NXDOMAIN'],
]

const data = (lines: readonly string[]) =>
  lines
    .filter((line) => !line.includes(' RRSIG '))
    .map((line) => (line.includes(' DS ') ? 'yes' : (/("[^"]*"|\S+)$/.exec(line)?.[1] ?? '')))
    .sort()

t.test('dns-19 delv validates every answer with the key that is given out', async (t) => {
  const dns = await serve(t, [AT, 'fd00::53'])
  dns.apply(CONTENT)
  const { dnskey } = dnskeyOf(ZONE, CSK)
  const file = join(scratch(t), 'anchor')
  const [, key = ''] = /DNSKEY 257 3 13 (\S+)$/.exec(dnskey) ?? []
  writeFileSync(file, `trust-anchors { example.org. static-key 257 3 13 "${key}"; };\n`)
  const delv = async (server: string, from: string, question: string) => {
    const args = [`@${server}`, '-b', from, '-a', file, '+root=example.org', '+nosplit', ...question.split(' ')]
    const text = await client('delv', ...args)
    if (/negative response, fully validated/.test(text)) return /ncache nxdomain/.test(text) ? 'NXDOMAIN' : 'NODATA'
    if (!/^; fully validated/m.test(text)) return text
    return data(
      text
        .split('\n')
        .filter((line) => /^[^;\s]/.test(line))
        .map((line) => line.replace(/\t/g, ' ')),
    ).join()
  }
  for (const [question, inside, outside] of CASES) {
    const expected = [inside, outside].map((it) => ALIAS_ONLY[question] ?? it)
    t.same(await Promise.all([delv(AT, INSIDE, question), delv(AT, OUTSIDE, question)]), expected, question)
  }
  t.equal(await delv('fd00::53', 'fd01::9', 'www.example.org A'), '192.0.2.1,192.0.2.2')
})

t.test('dns-19 a validating resolver with the DS gives secure answers, and insecure ones where it must', async (t) => {
  const dns = await serve(t, [AT])
  dns.apply(CONTENT)
  const other = await serve(t, [ELSEWHERE])
  other.apply([
    zone('sub.example.org.'),
    record('sub.example.org.', `ns A ${ELSEWHERE}`),
    record('sub.example.org.', 'www A 192.0.2.41'),
  ])
  const inside = await unbound(t, INSIDE, '127.0.0.11')
  const outside = await unbound(t, OUTSIDE, '127.0.0.12')
  const ask = async (resolver: string, question: string) => {
    const { status, flags, answer, text } = await dig(resolver, '+dnssec', ...question.split(' '))
    const seen = data(answer).join()
    const result = status === 'NOERROR' ? seen || 'NODATA' : status
    return { secure: flags.includes('ad'), result: status === 'SERVFAIL' ? text : result }
  }
  for (const [question, ...expected] of CASES) {
    // The return code is that of the alias's target.
    const results = expected.map((it) => (it === 'NODATA' ? (ALIAS_ONLY[question] ?? it) : it))
    const seen = await Promise.all([ask(inside, question), ask(outside, question)])
    t.same(
      seen,
      results.map((result) => ({ secure: true, result })),
      question,
    )
  }
  for (const [question, expected] of INSECURE) {
    t.same(await ask(outside, question), { secure: false, result: expected }, question)
  }
})

t.test('RRSIG only with the DO bit, and the key and NSEC of a name when asked for', async (t) => {
  const dns = await serve(t, [AT])
  dns.apply(CONTENT)
  const { dnskey, ds, tag } = dnskeyOf(ZONE, CSK)
  t.match(ds, new RegExp(`^example.org. 3600 IN DS ${tag} 13 2 [0-9A-F]{64}$`))
  t.notMatch((await dig(AT, 'www.example.org', 'A')).text, /RRSIG/)
  t.notMatch((await dig(AT, 'nothing.example.org', 'A')).text, /NSEC/)
  t.same((await dig(AT, '+nosplit', 'example.org', 'DNSKEY')).answer, [dnskey])
  const signed = await dig(AT, '+dnssec', '+nosplit', 'www.example.org', 'A')
  t.match(signed.answer.at(-1), new RegExp(`^www.example.org. 300 IN RRSIG A 13 3 300 \\d+ \\d+ ${tag} example.org. `))
  t.match(signed.text, /EDNS: version: 0, flags: do; udp: 1232/)
  t.same((await dig(AT, '+dnssec', 'www.example.org', 'NSEC')).answer.length, 2)
  t.match((await dig(AT, '+dnssec', '+notcp', 'www.example.org', 'RRSIG')).answer, [/ IN RRSIG A 13 /])
  const referral = await dig(AT, '+dnssec', 'www.sub.example.org', 'A')
  t.same(
    referral.authority.map((line) => line.split(' ').slice(3, 5).join(' ')),
    ['NS ns.sub.example.org.', 'NSEC \\000.sub.example.org.', 'RRSIG NSEC'],
  )
  t.match(referral.authority[1], / NS RRSIG NSEC$/)
  t.equal((await dig(AT, '+dnssec', '+notcp', '+ignore', 'nothing.example.org', 'A')).flags.includes('tc'), false)
})

t.test(
  'D58 a zone is signed as soon as it has a key, by the new one as soon as that changes, and not without',
  async (t) => {
    const dns = await serve(t, [AT])
    const bare = zone(ZONE)
    const first = zone(ZONE, CSK)
    const second = zone(ZONE, CHILD)
    const tag = async () => (await dig(AT, '+dnssec', 'www.example.org', 'A')).answer[1]?.split(' ')[10]
    dns.apply([bare, record(ZONE, 'www A 192.0.2.1')])
    t.equal(await tag(), undefined)
    dns.apply([{ before: bare.after, after: first.after }])
    t.equal(await tag(), String(dnskeyOf(ZONE, CSK).tag))
    dns.apply([{ before: first.after, after: second.after }])
    t.equal(await tag(), String(dnskeyOf(ZONE, CHILD).tag))
    dns.apply([undone({ before: second.after, after: bare.after }), { before: second.after, after: bare.after }])
    t.equal(await tag(), undefined)
  },
)

t.test('signatures are made anew in time, and when the clock was set back', async (t) => {
  const clock = { now: Date.UTC(2024, 0, 1) }
  const dns = await serve(t, [AT], { now: () => clock.now })
  dns.apply(CONTENT)
  const DAY = 86_400_000
  const signature = async () => {
    const { answer } = await dig(AT, '+dnssec', 'www.example.org', 'A')
    const [expiration = '', inception = ''] = answer.at(-1)?.split(' ').slice(8, 10) ?? []
    return `${inception}-${expiration}`
  }
  const first = await signature()
  t.equal(first, '20231231210000-20240115000000')
  clock.now += 6 * DAY
  t.equal(await signature(), first)
  clock.now += 1 * DAY
  const second = await signature()
  t.equal(second, '20240107210000-20240122000000')
  clock.now -= 30 * DAY
  t.equal(await signature(), '20231208210000-20231223000000')
})

/** A resolver at `address` that asks from `source`. */
async function unbound(t: Scope, source: string, address: string): Promise<string> {
  const dir = scratch(t)
  const file = join(dir, 'unbound.conf')
  writeFileSync(
    file,
    `server:
  username: ""
  chroot: ""
  directory: "${dir}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  interface: ${address}
  port: 53
  do-daemonize: no
  do-ip6: no
  do-not-query-localhost: no
  outgoing-interface: ${source}
  module-config: "validator iterator"
  trust-anchor: "${dnskeyOf(ZONE, CSK).ds}"
  qname-minimisation: yes
  aggressive-nsec: yes
  harden-below-nxdomain: yes
remote-control:
  control-enable: no
stub-zone:
  name: "example.org."
  stub-addr: ${AT}
`,
  )
  const child = netnsNamed(t, here ?? '').spawn('unbound', ['-d', '-p', '-c', file])
  let said = ''
  await new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer) => {
      said += chunk
      if (/start of service/.test(said)) resolve()
    }
    child.stderr?.on('data', hear)
    child.stdout?.on('data', hear)
    child.once('exit', () => reject(new Error(`unbound ended: ${said}`)))
  })
  return address
}
