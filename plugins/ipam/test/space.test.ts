/** The table of free intervals against a set of addresses, and what a step of it costs. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import type { Db } from '../../../core/area.ts'
import { fc } from '../../../test/property.ts'
import { moved, parseAddress } from '../address.ts'
import { giveBack, openSpace, take, takeLowest } from '../space.ts'
import { free } from '../tables.ts'
import { database, intervals } from './store.ts'

const hexOf = (text: string): string => parseAddress(text)?.hex ?? ''
const rowsOf = (db: Db, pool: number) =>
  db
    .select()
    .from(free)
    .all()
    .filter((row) => row.pool === pool)
    .sort((a, b) => (a.first < b.first ? -1 : 1))

/** A pool of 12 addresses that begins at `base`: its addresses as numbers from 0 on, and as hex. */
const SIZE = 12
const bases = [
  '0.0.0.0',
  '10.0.0.250',
  '255.255.255.244',
  '::',
  'fd00::fff0',
  'ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff4',
]
const at = (base: string, n: number): string => {
  const hex = hexOf(base)
  return (BigInt(`0x${hex}`) + BigInt(n)).toString(16).padStart(hex.length, '0')
}

type Step = { kind: 'lowest' } | { kind: 'take' | 'give'; n: number }
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Step>({ kind: 'lowest' }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('take' as const), n: fc.nat(SIZE - 1) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('give' as const), n: fc.nat(SIZE - 1) }) },
)

t.test('ipam-14 ipam-15 ipam-16 any sequence of steps: the intervals are the free addresses, joined', async (t) => {
  const db = database(t)
  let pool = 0
  const met = new Set<string>()
  const gateways = fc.integer({ min: -1, max: SIZE - 1 })
  const sequences = fc.array(step, { maxLength: 60, size: 'max' })
  fc.assert(
    fc.property(fc.constantFrom(...bases), gateways, sequences, (base, gateway, steps) => {
      pool++
      const model = new Set(Array.from({ length: SIZE }, (_, n) => n))
      model.delete(gateway)
      openSpace(db, pool, at(base, 0), at(base, SIZE - 1), gateway < 0 ? '' : at(base, gateway))
      for (const one of steps) carryOut(db, pool, base, gateway, model, one, met)
      const rows = rowsOf(db, pool)
      const held = rows.flatMap(({ first, last }) => numbers(base, first, last))
      if (held.join() !== [...model].sort((a, b) => a - b).join()) throw new Error(`${held.join()} is not the model`)
      const touching = rows.find(({ last }, index) => moved(last, 1n) >= (rows[index + 1]?.first ?? 'g'))
      if (touching) throw new Error(`${touching.first} to ${touching.last} touches the next interval`)
    }),
    { numRuns: 300 },
  )
  t.same([...met].sort(), ['full', 'given', 'held', 'lowest', 'taken'], 'control: every outcome was met')
})

function carryOut(
  db: Db,
  pool: number,
  base: string,
  gateway: number,
  model: Set<number>,
  step: Step,
  met: Set<string>,
) {
  if (step.kind === 'lowest') {
    const lowest = model.size === 0 ? undefined : Math.min(...model)
    const got = takeLowest(db, pool)
    met.add(got === undefined ? 'full' : 'lowest')
    if (got !== (lowest === undefined ? undefined : at(base, lowest))) throw new Error(`lowest: ${got}, not ${lowest}`)
    model.delete(lowest ?? -1)
  } else if (step.kind === 'take') {
    const got = take(db, pool, at(base, step.n))
    met.add(got ? 'taken' : 'held')
    if (got !== model.delete(step.n)) throw new Error(`take ${step.n}: ${got}`)
  } else if (step.n !== gateway && !model.has(step.n)) {
    met.add('given')
    giveBack(db, pool, at(base, step.n))
    model.add(step.n)
  }
}

function numbers(base: string, first: string, last: string): number[] {
  const from = Number(BigInt(`0x${first}`) - BigInt(`0x${hexOf(base)}`))
  const count = Number(BigInt(`0x${last}`) - BigInt(`0x${first}`)) + 1
  return Array.from({ length: count }, (_, n) => from + n)
}

t.test('ipam-14 the gateway splits the range, wherever it lies', async (t) => {
  const db = database(t)
  const table: [string, string[]][] = [
    ['', ['10.0.0.1-10.0.0.6']],
    ['10.0.0.1', ['10.0.0.2-10.0.0.6']],
    ['10.0.0.3', ['10.0.0.1-10.0.0.2', '10.0.0.4-10.0.0.6']],
    ['10.0.0.6', ['10.0.0.1-10.0.0.5']],
    ['10.0.0.7', ['10.0.0.1-10.0.0.6']],
  ]
  for (const [index, [gateway, left]] of table.entries()) {
    openSpace(db, index, hexOf('10.0.0.1'), hexOf('10.0.0.6'), hexOf(gateway))
    t.same(intervals(db, index), left, gateway)
  }
  openSpace(db, 99, hexOf('10.0.0.1'), hexOf('10.0.0.1'), hexOf('10.0.0.1'))
  t.same(intervals(db, 99), [], 'nothing but the gateway is nothing')
})

t.test('a step of a fragmented pool reads by index only', async (t) => {
  const db = database(t)
  const plans = [
    'select * from ipam_free where pool = 1 order by first limit 1',
    "select * from ipam_free where pool = 1 and first <= 'x' order by first desc limit 1",
    "select * from ipam_free where pool = 1 and first = 'x'",
    "select * from ipam_allocations where pool_id = 1 and ip = 'x'",
    "select count(*) from ipam_pools where tenant_id = 'a' and owner = ''",
    "select count(*) from ipam_allocations where tenant_id = 'a' and owner = ''",
    "select * from ipam_pools where tenant_id = '' and family = 4 and first <= 'x' order by first desc limit 1",
  ]
  for (const statement of plans) {
    const plan = db.all<{ detail: string }>(sql.raw(`explain query plan ${statement}`)).map(({ detail }) => detail)
    t.match(plan.join('; '), /^SEARCH \S+ USING (COVERING )?INDEX/, statement)
  }
})
