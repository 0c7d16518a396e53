/** After any sequence of changes, some refused: what the responder holds, a full rendering and a plain model agree. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import type { DnsRecord } from '../../../dataplane/responder/entries.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { DNS, dnsArea } from './area.ts'

const area = await dnsArea(t)
const ZONES = ['example.org.', 'sub.example.org.', 'other.example.']

type Step =
  | { do: 'zone'; name: string; refuse: boolean }
  | { do: 'record'; zone: number; fields: Record<string, string>; refuse: boolean }
  | { do: 'sign'; zone: number }
  | { do: 'delete zone' | 'delete record'; which: number; refuse: boolean }

const refuse = fc.nat(5).map((n) => n === 0)
const fields = fc.record({
  name: fc.constantFrom('@', 'www', 'a.b', 'alias'),
  source_subnet: fc.constantFrom('', '10.0.0.0/8', 'fd00::/8'),
})
const kinds = fc.constantFrom(
  { type: 'A', value: '192.0.2.1' },
  { type: 'A', value: '192.0.2.2' },
  { type: 'AAAA', value: '2001:db8::1' },
  { type: 'CNAME', value: 'www.example.org.' },
  { type: 'TXT', value: 'some text' },
  { type: 'SOA', value: 'ns. host. 5 1 2 3 4' },
)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('zone' as const), name: fc.constantFrom(...ZONES), refuse }) },
  {
    weight: 8,
    arbitrary: fc
      .tuple(fc.nat(2), fields, kinds, refuse)
      .map(([zone, where, what, refuse]) => ({ do: 'record' as const, zone, fields: { ...where, ...what }, refuse })),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('sign' as const), zone: fc.nat(2) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('delete zone' as const, 'delete record' as const),
      which: fc.nat(30),
      refuse,
    }),
  },
)

/** What there is by a plain reading of the rules. */
interface Model {
  zones: Map<
    string,
    {
      id: number
      signed: boolean
      records: { id: number; name: string; type: string; value: string; subnet: string }[]
    }
  >
}

let made = 0

async function carryOut(model: Model, one: Step): Promise<void> {
  const zones = [...model.zones]
  const all = zones.flatMap(([, { records }]) => records)
  if ('refuse' in one) area.plane.refuse = one.refuse ? new KernelRefusal('made up') : undefined
  switch (one.do) {
    case 'zone': {
      const { status, body } = await area.call('POST', `${DNS}/zones`, { name: one.name })
      equal(status, model.zones.has(one.name) || one.refuse ? 409 : 201, `zone ${one.name}`)
      if (status === 201)
        model.zones.set(one.name, { id: (body.zone as { id: number }).id, signed: false, records: [] })
      break
    }
    case 'record': {
      const [name, zone] = zones[one.zone] ?? []
      if (zone === undefined || name === undefined) break
      const { type = '', value = '', source_subnet: subnet = '' } = one.fields
      const whole = one.fields.name === '@' ? name : `${one.fields.name}.${name}`
      const here = zone.records.filter((record) => record.name === whole)
      const twice = here.some((record) => record.type === type && record.value === value && record.subnet === subnet)
      const alias = here.some((record) => record.type === 'CNAME')
      const clash =
        type === 'CNAME'
          ? whole === name || here.some((record) => record.type !== 'CNAME' || record.subnet === subnet)
          : alias || (type === 'SOA' && here.some((record) => record.type === 'SOA'))
      const wrong = type === 'SOA' && (whole !== name || subnet !== '')
      const { status, body } = await area.call('POST', `${DNS}/records`, { zone_id: zone.id, ...one.fields })
      // An SOA record stands in its zone's entry, so there is no record of its own to refuse, but the zone's is.
      equal(status, wrong ? 400 : twice || clash || one.refuse ? 409 : 201, `record ${JSON.stringify(one.fields)}`)
      if (status !== 201) break
      made++
      zone.records.push({ id: (body.record as { id: number }).id, name: whole, type, value, subnet })
      break
    }
    case 'sign': {
      const [name, zone] = zones[one.zone] ?? []
      if (zone === undefined) break
      equal((await area.call('GET', `${DNS}/dnssec/${name}`)).status, 200, 'signing')
      zone.signed = true
      break
    }
    case 'delete zone': {
      const [name, zone] = zones[one.which % (zones.length || 1)] ?? []
      if (zone === undefined || name === undefined) break
      const { status } = await area.call('DELETE', `${DNS}/zones/${zone.id}`)
      equal(status, one.refuse ? 409 : 200, 'deletion of a zone')
      if (status === 200) model.zones.delete(name)
      break
    }
    case 'delete record': {
      const record = all[one.which % (all.length || 1)]
      const zone = zones.find(([, { records }]) => records.some(({ id }) => id === record?.id))?.[1]
      if (record === undefined || zone === undefined) break
      const { status } = await area.call('DELETE', `${DNS}/records/${record.id}`)
      equal(status, one.refuse ? 409 : 200, 'deletion of a record')
      if (status === 200) zone.records = zone.records.filter(({ id }) => id !== record.id)
    }
  }
  area.plane.refuse = undefined
}

/** fast-check shrinks on what is thrown. */
function equal(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
  if (left !== right) throw new Error(`${what}: ${left} is not ${right}`)
}

const byKey = (entries: Iterable<{ key: string }>) => [...entries].sort((a, b) => (a.key < b.key ? -1 : 1))

async function agrees({ zones }: Model): Promise<void> {
  const { agent, plane } = area
  const rendered = [...desired.all(agent.store.read, agent.config)]
  const held = byKey([...plane.entries.values()].filter(({ key }) => key.startsWith('dns/')))
  equal(held, byKey(rendered), 'the responder holds a full rendering')
  const shown = (entry: { name: string; type: string; value: string; subnet: string }) =>
    [entry.name, entry.type, entry.value, entry.subnet].join(' ')
  const records = rendered.filter((entry) => entry.kind === 'dns_record').map((entry) => shown(entry as DnsRecord))
  const wanted = [...zones.values()].flatMap((zone) => zone.records.filter(({ type }) => type !== 'SOA').map(shown))
  equal(records.sort(), wanted.sort(), 'records of the model')
  const signed = rendered.filter((entry) => entry.kind === 'dns_zone' && entry.csk !== undefined).length
  equal(signed, [...zones.values()].filter((zone) => zone.signed).length, 'signed zones')
}

t.test('any sequence of changes: responder = full rendering = model', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30, size: 'max' }), async (steps) => {
      const model: Model = { zones: new Map() }
      for (const one of steps) await carryOut(model, one)
      await agrees(model)
      for (const { id } of model.zones.values()) await area.call('DELETE', `${DNS}/zones/${id}`)
      equal(area.held(), [], 'nothing is left')
    }),
    { numRuns: 60 },
  )
  t.ok(made > 40, `control: ${made} records`)
})
