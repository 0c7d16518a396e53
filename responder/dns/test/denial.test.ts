/** Names around a name: nothing that can be held lies between them, in the order of RFC 4034 §6.1. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { behind, predecessor, successor, typeBitmap } from '../denial.ts'
import { labelled, labelsOf, MAX_NAME, nameOf, textOf } from '../names.ts'

/** Canonical order: by labels from the right, as octets in lower case. */
function compare(a: string, b: string): number {
  const [one, other] = [a, b].map((name) => labelsOf(name).reverse())
  for (let n = 0; ; n++) {
    const [x, y] = [one?.[n], other?.[n]]
    if (x === undefined || y === undefined) return x === y ? 0 : x === undefined ? -1 : 1
    if (x !== y) return x < y ? -1 : 1
  }
}

const joined = (labels: readonly string[]) => `${labels.map(labelled).join('')}\0`
const ALPHABET = [...'abyz019-_!}']
/** Labels that a record may have: few letters, so that they come close to each other. */
const heldLabel = fc
  .array(fc.constantFrom(...ALPHABET), { minLength: 1, maxLength: 3 })
  .map((letters) => letters.join(''))
const lower = (octet: number) => (octet >= 0x41 && octet <= 0x5a ? octet + 0x20 : octet)
const anyLabel = fc.oneof(
  { weight: 3, arbitrary: heldLabel },
  fc.uint8Array({ minLength: 1, maxLength: 4 }).map((octets) => String.fromCharCode(...octets.map(lower))),
  heldLabel.map((head) => head.padEnd(63, 'm')),
  heldLabel.map((tail) => tail.padStart(63, 'm')),
  heldLabel.map((head) => `${head}\0`),
)
const aName = (label: fc.Arbitrary<string>) =>
  fc
    .array(label, { minLength: 1, maxLength: 5 })
    .map(joined)
    .filter((name) => name.length <= MAX_NAME)
const isValid = (name: string) =>
  name.length <= MAX_NAME && labelsOf(name).every((label) => label.length > 0 && label.length < 64)
/** The last of all labels has none behind it. */
const hasNext = (name: string) => !/^\xff+$/.test(labelsOf(name)[0] ?? '')

t.test('what stands before and behind a name denies nothing that could be held', async () => {
  fc.assert(
    fc.property(aName(anyLabel), fc.array(aName(heldLabel)), (name, held) => {
      const before = predecessor(name)
      const after = behind(name)
      const next = successor(name)
      if (!isValid(before) || !isValid(next)) return false
      if (compare(before, name) >= 0 || compare(name, next) >= 0) return false
      if (hasNext(name) && (!isValid(after) || compare(name, after) >= 0)) return false
      const below = `\x01a${name}`
      if (hasNext(name) && below.length <= MAX_NAME && compare(below, after) >= 0) return false
      return [...held, name.length > 3 ? name.slice(labelled(labelsOf(name)[0] ?? '').length) : '\0'].every((other) => {
        // The name itself and what lies below it do not exist.
        if (other === name || other.endsWith(name)) return true
        return compare(other, before) <= 0 || !hasNext(name) || compare(other, after) >= 0
      })
    }),
    { numRuns: 5000 },
  )
})

t.test('before a name that ends in \\000 are the shorter one and all that is below that', async (t) => {
  const parent = joined(['example'])
  const below = (name: string) => joined(['zz']).slice(0, -1) + name
  const name = labelled('a\0') + parent
  t.equal(predecessor(name), labelled('~') + labelled('a') + parent)
  t.ok(compare(below(labelled('a') + parent), predecessor(name)) < 0, 'what is held below the shorter one exists')
  t.equal(predecessor(labelled('\0') + parent), parent)
  t.ok(compare(parent, labelled('\0') + parent) < 0)
  for (const [last, head] of [
    [57, labelled('~')],
    [58, ''],
  ] as const) {
    const far = joined([63, 63, 63, last].map((size) => 'k'.repeat(size)))
    t.equal(predecessor(labelled('a\0') + far), head + labelled('a') + far, 'as far as a name may be that long')
  }
})

t.test('names of any length up to the last octet', async (t) => {
  for (const length of [250, 252, 253, 254, 255]) {
    for (const first of [1, 30, 62, 63]) {
      const labels = ['k'.repeat(first)]
      let left = length - 1 - (first + 1)
      while (left > 0) {
        // No label of nothing may remain.
        const size = left === 65 ? 62 : Math.min(63, left - 1)
        labels.push('k'.repeat(size))
        left -= size + 1
      }
      const name = joined(labels)
      t.equal(name.length, length)
      for (const made of [predecessor(name), behind(name), successor(name)]) t.ok(isValid(made), `${made.length}`)
      t.ok(
        compare(predecessor(name), name) < 0 && compare(name, behind(name)) < 0 && compare(name, successor(name)) < 0,
      )
    }
  }
})

t.test('names between text and wire, and bitmaps as in RFC 4034', async (t) => {
  t.equal(nameOf('Example.ORG.'), '\x07example\x03org\0')
  t.equal(textOf(nameOf('example.org.')), 'example.org.')
  t.equal(textOf('\x03a.\0\0'), 'a\\046\\000.')
  t.equal(nameOf('.'), '\0')
  // The example of §4.3: A MX RRSIG NSEC TYPE1234.
  const bitmap = `0006400100000003041b${'00'.repeat(26)}20`
  t.equal(Buffer.from(typeBitmap([1234, 1, 15, 46, 47]), 'latin1').toString('hex'), bitmap)
})
