/** The engine beside a model that looks through lists, after any sequence of changes. */

import t from 'tap'
import type { DnsRecord } from '../../../dataplane/responder/entries.ts'
import { fc } from '../../../test/property.ts'
import { RCODE } from '../answer.ts'
import { newCsk } from '../keys.ts'
import { TYPE } from '../rdata.ts'
import { MANY, openAsking } from './asking.ts'
import { decode, request } from './message.ts'
import { record, undone, zone } from './serve.ts'

const RUNS = Number(process.env.RUNS ?? 60)
const LABELS = ['a', 'b', 'c']
const ZONES = ['z.', 'b.z.', 'a.b.z.']
const SUBNETS = ['', '10.0.0.0/8', '10.1.0.0/16']
const SOURCES: [address: Buffer, subnets: string[]][] = [
  [Buffer.from([192, 0, 2, 1]), ['']],
  [Buffer.from([10, 2, 0, 1]), ['10.0.0.0/8', '']],
  [Buffer.from([10, 1, 0, 1]), ['10.1.0.0/16', '10.0.0.0/8', '']],
]
const TYPES = ['A', 'TXT', 'CNAME', 'NS'] as const
const NAMES = ['', ...LABELS, ...LABELS.flatMap((a) => LABELS.map((b) => `${a}.${b}`)), 'a.a.b', 'c.a.b', 'b.c.c']
const HOSTS = NAMES.map((name) => (name === '' ? 'z.' : `${name}.z.`))

interface Held {
  zones: string[]
  records: DnsRecord[]
}

const isIn = (name: string, outer: string) => name === outer || name.endsWith(`.${outer}`)

/** What is expected: code, whether it is a referral, and the data of the answer. */
function expected({ zones, records }: Held, qname: string, qtype: string, seen: string[]): string {
  const home = zones.filter((it) => isIn(qname, it)).sort((a, b) => b.length - a.length)[0]
  if (home === undefined) return 'REFUSED'
  const visible = records.filter((it) => it.zone === home && seen.includes(it.subnet))
  const inner = zones.filter((it) => it !== home && isIn(it, home))
  const exists = (name: string) => [home, ...inner, ...visible.map((it) => it.name)].some((it) => isIn(it, name))
  const set = (name: string, type: string) => {
    const all = visible.filter((it) => it.name === name && it.type === type)
    const subnet = seen.find((one) => all.some((it) => it.subnet === one))
    return [...new Set(all.filter((it) => it.subnet === subnet).map((it) => `${name} ${type} ${it.value}`))].sort()
  }
  const cut = (name: string) => {
    const labels = name.split('.')
    return labels
      .map((_, n) => labels.slice(n).join('.'))
      .some((it) => it !== home && isIn(it, home) && (inner.includes(it) || set(it, 'NS').length > 0))
  }
  const answers: string[] = []
  for (let name = qname, passed = new Set<string>(); ; ) {
    passed.add(name)
    if (cut(name)) return name === qname ? 'referral' : `NOERROR ${answers.join()}`
    if (!exists(name)) return `NXDOMAIN ${answers.join()}`
    const own = qtype === 'NS' && name === home && set(name, 'NS').length === 0
    const found = own ? [`${name} NS ns1.${home}`] : set(name, qtype)
    const alias = set(name, 'CNAME')[0]
    answers.push(...(found.length > 0 || alias === undefined ? found : [alias]))
    const target = alias?.split(' ')[2] ?? ''
    if (found.length > 0 || alias === undefined || !isIn(target, home) || passed.has(target)) {
      return `NOERROR ${answers.join()}`
    }
    name = target
  }
}

const NAME_OF = new Map(TYPES.map((type) => [TYPE[type] as number, type]))

function answered(bytes: Buffer | undefined): string {
  const { rcode, authoritative, answers, authorities } = decode(bytes ?? Buffer.alloc(0))
  if (rcode === RCODE.REFUSED) return 'REFUSED'
  if (!authoritative) return 'referral'
  const lines = answers.map((line) => {
    const [name = '', type = '', value = ''] = line.split(' ')
    const code = Number(type)
    const data = Buffer.from(value, 'hex')
    const text = code === TYPE.A ? data.join('.') : code === TYPE.TXT ? data.toString('latin1', 1) : value
    return `${name} ${NAME_OF.get(code)} ${text}`
  })
  if (lines.length === 0 && !authorities.some((line) => line.includes(` ${TYPE.SOA} `))) return 'no SOA'
  return `${rcode === RCODE.NXDOMAIN ? 'NXDOMAIN' : 'NOERROR'} ${lines.join()}`
}

/** Few, so that much comes together at one name. */
const OWNERS = ['', 'a', 'a', 'b', 'a.b', 'c', 'c.a.b']
const aRecord = fc
  .record({
    zone: fc.constantFrom(...ZONES),
    name: fc.constantFrom(...OWNERS),
    subnet: fc.constantFrom(...SUBNETS),
    value: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('A 192.0.2.1', 'A 192.0.2.2', 'TXT one', 'TXT two') },
      fc.constantFrom('a.z.', 'b.z.', 'a.b.z.', 'c.z.', 'x.example.').map((host) => `CNAME ${host}`),
      fc.constantFrom('NS c.z.', 'NS ns.example.'),
    ),
  })
  .map(({ zone, name, subnet, value }) => record(zone, `${name === '' ? '@' : name} ${value}`, subnet))

type Change = { zone: string } | { record: ReturnType<typeof record> }
const aChange: fc.Arbitrary<Change> = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...ZONES).map((zone) => ({ zone })) },
  { weight: 8, arbitrary: aRecord.map((record) => ({ record })) },
)

t.test(
  'dns-11 dns-12 D57 after any changes the engine answers as the model does, and as if all had come at once',
  async () => {
    const csk = newCsk()
    const property = (changes: Change[], signed: boolean) => {
      const key = signed ? csk : undefined
      const engine = openAsking({ limits: { largeAnswers: MANY, signatures: MANY, prefixSignatures: MANY } })
      const held: Held = { zones: [], records: [] }
      const open = (name: string) => {
        held.zones.push(name)
        engine.zones.apply([zone(name, key)])
      }
      open('z.')
      for (const change of changes) {
        if ('record' in change) {
          const { after } = change.record
          if (!held.zones.includes(after.zone)) continue
          const there = held.records.find((it) => it.key === after.key)
          // D55: an alias is one at its name.
          const alike = (it: DnsRecord) =>
            it.name === after.name && it.subnet === after.subnet && it.type === after.type
          if (after.type === 'CNAME' && !there && held.records.some(alike)) continue
          held.records = there ? held.records.filter((it) => it !== there) : [...held.records, after]
          engine.zones.apply([there ? undone(change.record) : change.record])
        } else if (held.zones.includes(change.zone)) {
          const gone = held.records.filter((it) => it.zone === change.zone)
          held.zones = held.zones.filter((it) => it !== change.zone)
          held.records = held.records.filter((it) => it.zone !== change.zone)
          engine.zones.apply([undone(zone(change.zone, key)), ...gone.map((before) => ({ before }))])
        } else open(change.zone)
        // Answers are kept from one change to the next.
        for (const [source] of SOURCES) engine.ask(request('a.b.z.'), source)
      }
      const fresh = openAsking()
      fresh.zones.apply([...held.zones.map((name) => zone(name, key)), ...held.records.map((after) => ({ after }))])
      for (const name of HOSTS) {
        for (const type of TYPES) {
          for (const [source, seen] of SOURCES) {
            const bytes = request(name, { type: TYPE[type] })
            const answer = engine.ask(bytes, source)
            const is = answered(answer)
            const shall = expected(held, name, type, seen)
            if (is !== shall) throw new Error(`${name} ${type} from ${source.join('.')}: ${is}; expected ${shall}`)
            const again = fresh.ask(bytes, source)
            if (!again || !answer?.equals(again)) throw new Error(`${name} ${type}: another answer if all came at once`)
            if (!signed) continue
            // Every set and every denial can be signed, whatever the shape.
            const secure = engine.ask(request(name, { type: TYPE[type], secure: true }), source, true)
            if (answered(secure).split(' ')[0] !== shall.split(' ')[0]) throw new Error(`${name} ${type} with DO`)
          }
        }
      }
    }
    fc.assert(fc.property(fc.array(aChange, { minLength: 10, maxLength: 60 }), fc.constant(false), property), {
      numRuns: RUNS,
    })
    fc.assert(fc.property(fc.array(aChange, { minLength: 10, maxLength: 30 }), fc.constant(true), property), {
      numRuns: RUNS / 10,
    })
  },
)

t.test('dns-21 what cannot be held is refused, and nothing of its batch is held', async (t) => {
  const { zones } = openAsking()
  zones.apply([zone('z.'), record('z.', 'a A 192.0.2.1')])
  const good = record('z.', 'b A 192.0.2.1')
  const REFUSED: [string, ReturnType<typeof record> | ReturnType<typeof zone>][] = [
    ['y. is no zone', record('y.', 'a A 192.0.2.1')],
    ['does not lie in z.', { after: { ...record('z.', 'a A 192.0.2.1').after, name: 'a.y.' } }],
    ['does not lie in z.', { after: { ...record('z.', 'a A 192.0.2.1').after, name: 'az.' } }],
    ['not an IP address', record('z.', 'a A 192.0.2.256')],
    ['not an IPv6 address', record('z.', 'a AAAA 192.0.2.1')],
    ['wildcard', record('z.', '* A 192.0.2.1')],
    ['lacks the dot', record('z.', 'a CNAME www')],
    ['needs 2 fields', record('z.', 'a MX mail.z.')],
    ['no number up to 65535', record('z.', 'a SRV 1 2 65536 a.z.')],
    ['not an IP prefix', record('z.', 'a A 192.0.2.1', '10.0.0.0/33')],
    ['a TTL is', record('z.', 'a A 192.0.2.1', '', 2 ** 31)],
    ['1 to 63', record('z.', `${'x'.repeat(64)} A 192.0.2.1`)],
    ['longer than', record('z.', `${'x.'.repeat(127)}x A 192.0.2.1`)],
    ['needs 7 fields', { after: { ...zone('y.').after, soa: 'a. b. 1 2 3' } }],
  ]
  for (const [message, bad] of REFUSED) {
    t.throws(() => zones.apply([good, bad]), { message: new RegExp(message) }, message)
    t.same(zones.counts(), { zones: 1, records: 1 })
  }
  t.throws(() => zones.apply([{ before: zone('z.').after }]), /still has records/)
  t.throws(() => zones.apply([{ after: { ...zone('y.').after, csk: 'AAAA' } }]))
  zones.apply([zone('z.'), record('z.', 'a A 192.0.2.1')])
  t.same(zones.counts(), { zones: 1, records: 1 }, 'told again')
  zones.apply([{ before: record('z.', 'a A 192.0.2.1').after }, { before: zone('z.').after }])
  t.same(zones.counts(), { zones: 0, records: 0 })
})
