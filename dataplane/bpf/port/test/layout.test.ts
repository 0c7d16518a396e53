import t from 'tap'
import { ceilingRow, quotaEvent, shapeRow } from '../../../shaping/maps.ts'
import { flowKey4, flowKey6, flowRow, usageRow } from '../../flow/layout.ts'
import { claimEvent } from '../claims.ts'
import {
  addressKey,
  addressRow,
  bucketRow,
  endpointKey,
  endpointRow,
  formerRow,
  linkKey,
  macbindRow,
  netRow,
  outsideRow,
  prefixKey,
  tenantNetRow,
  violationKey,
  violationRow,
} from '../layout.ts'
import { PORT_OBJECT } from '../maps.ts'
import { REASONS, reasonName } from '../reason.ts'
import type { Struct } from '../struct.ts'
import { violationEvent } from '../violation.ts'
import { readStructs } from './btf.ts'

const LAYOUTS: readonly Struct<never>[] = [
  addressKey,
  addressRow,
  bucketRow,
  claimEvent,
  endpointKey,
  endpointRow,
  flowKey4,
  flowKey6,
  flowRow,
  formerRow,
  linkKey,
  macbindRow,
  netRow,
  outsideRow,
  prefixKey,
  tenantNetRow,
  usageRow,
  violationEvent,
  violationKey,
  violationRow,
  shapeRow,
  ceilingRow,
  quotaEvent,
] as never

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

for (const layout of LAYOUTS) {
  t.test(`struct ${layout.struct} is laid out as in C`, async (t) => {
    const inC = readStructs(PORT_OBJECT).get(layout.struct)
    t.equal(inC?.size, layout.size)
    const fields = Object.entries(layout.fields as Record<string, readonly [number, { size: number }]>)
    for (const [name, [at, { size }]] of fields) {
      const covered = (inC?.members ?? []).filter((member) => member.at < at + size && member.at + member.size > at)
      t.ok(
        covered.length > 0 && covered.every((member) => member.name.startsWith(snake(name))),
        `${name} is its name in C`,
      )
      t.equal(covered[0]?.at, at, `${name} begins where it does in C`)
      t.equal(
        covered.reduce((sum, member) => sum + member.size, 0),
        size,
        `${name} is as long as in C`,
      )
    }
    const named = fields.map(([name]) => snake(name))
    const rest = (inC?.members ?? []).filter(({ name }) => !named.some((known) => name.startsWith(known)))
    t.same(
      rest.filter(({ name }) => name !== 'unused'),
      [],
      'nothing in C is left out',
    )
  })
}

t.test('what is written is read back', async (t) => {
  const key = { net: 0x400001, mac: '02:ce:0a:00:00:05' }
  const buffer = Buffer.alloc(32, 0xff)
  endpointKey.encode(buffer, 4, key)
  t.equal(buffer.toString('hex', 4, 16), '0100400002ce0a0000050000')
  t.same(endpointKey.decode(buffer, 4), key)
  endpointRow.encode(buffer, 0, { address: '10.0.0.5', claims: 2, home: 7, slot: 9 })
  t.equal(buffer.toString('hex', 0, 16), '0a000005020000000700000009000000')
  t.throws(() => endpointKey.encode(buffer, 0, { net: 1, mac: 'nonsense' }), RangeError)
  t.throws(() => addressKey.encode(buffer, 0, { net: 1, address: 'fe80::1' }), /not an IPv4 address: fe80::1/)
})

t.test('every reason has a number of its own, a name and words', async (t) => {
  const numbers = Object.values(REASONS).map(({ number }) => number)
  t.equal(new Set(numbers).size, numbers.length)
  for (const [name, { number, words }] of Object.entries(REASONS)) {
    t.equal(reasonName(number), name)
    t.ok(words.length > 10)
  }
  t.equal(reasonName(0), undefined)
})

t.test('every reason that the programs know has a name', async (t) => {
  const all = Object.entries(await import('../numbers.ts'))
  const drops = all.filter(([name]) => name.startsWith('DROP_'))
  t.ok(drops.length > 25)
  for (const [name, number] of drops)
    t.equal(`DROP_${reasonName(Number(number))?.toUpperCase()}`, name, `${name} is named as in numbers.ts`)
})
