import t from 'tap'
import { LB_RING } from '../../../numbers.ts'
import { digestOf, type Live, RING_HEAD, ringOf } from '../ring.ts'

const backends = (count: number, weight: (n: number) => number = () => 1): Live[] =>
  Array.from({ length: count }, (_, n) => ({ id: `backend-${n}`, place: n, weight: weight(n) }))
const placesOf = (live: readonly Live[]) => ringOf('maglev', live).subarray(RING_HEAD, RING_HEAD + LB_RING)

/** Slots of each place. */
function shares(places: Uint8Array): Map<number, number> {
  const counts = new Map<number, number>()
  for (const place of places) counts.set(place, (counts.get(place) ?? 0) + 1)
  return counts
}

t.test('every backend has its share of a ring, weights within one percent', async (t) => {
  for (const [count, weight] of [
    [4, () => 1],
    [10, (n: number) => 1 + (n % 10)],
    [100, () => 1],
    [100, (n: number) => 1 + (n % 10)],
    [256, () => 3],
  ] as const) {
    const live = backends(count, weight)
    const total = live.reduce((sum, it) => sum + it.weight, 0)
    const counts = shares(placesOf(live))
    for (const { place, weight } of live) {
      const error = Math.abs((counts.get(place) ?? 0) / ((LB_RING * weight) / total) - 1)
      t.ok(error < 0.01, `${count} backends: ${place} is wrong by ${error}`)
    }
  }
})

t.test('when a backend leaves, next to none of the others’ slots move (lb-19)', async (t) => {
  for (const count of [4, 10, 100]) {
    const live = backends(count)
    const before = placesOf(live)
    const after = placesOf(live.filter(({ place }) => place !== 1))
    let moved = 0
    for (const [slot, place] of before.entries()) if (place !== 1 && after[slot] !== place) moved++
    t.ok(moved / LB_RING < 0.01, `${count} backends: ${moved} of ${LB_RING} moved`)
  }
})

t.test('two nodes agree, in whatever order they learn of the backends', async (t) => {
  const live = backends(20, (n) => 1 + (n % 3))
  t.same(ringOf('maglev', [...live].reverse()), ringOf('maglev', live))
  t.equal(digestOf('maglev', [...live].reverse()), digestOf('maglev', live))
  t.not(digestOf('maglev', live), digestOf('weighted', live))
  t.not(digestOf('maglev', live), digestOf('maglev', live.slice(1)))
})

t.test('round-robin and least-conn have each backend once, an empty ring has none', async (t) => {
  const ring = ringOf(
    'round-robin',
    backends(3, (n) => n + 1),
  )
  t.equal(ring.readUInt32LE(8), 3)
  t.same([...ring.subarray(RING_HEAD, RING_HEAD + 4)], [0, 1, 2, 0])
  t.equal(ringOf('maglev', []).readUInt32LE(8), 0)
})
