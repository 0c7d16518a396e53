/** Images, ranges of ports, plans, blocks and lines: what needs no packet. */
import t from 'tap'
import { ADVERSARIES } from '../../../../test/firewall/adversarial.ts'
import { dice } from '../../../../test/firewall/dice.ts'
import { mixed, tame } from '../../../../test/firewall/rulesets.ts'
import { requireRoot } from '../../../../test/netns.ts'
import { FILTER_TABLES } from '../../../numbers.ts'
import { type FilterMatch, filterFingerprint } from '../entries.ts'
import { deviceOf, familiesOf, imageOf, ruleOf } from '../image.ts'
import { fieldsWord, fits, hashOf, keyMask, type Mask, maskOf, portWord, shapeOf } from '../mask.ts'
import { plan } from '../plan.ts'
import { cellsOf, PORT_LENGTHS } from '../ports.ts'
import { NoRoom, Room } from '../room.ts'
import { type Table, TableSet } from '../table-set.ts'
import { arena, FAMILIES, prefix, ruleWith, SEED, tables } from './small.ts'

requireRoot(t)
t.comment(`SEED=${SEED}`)
const ROUNDS = Number(process.env.ROUNDS ?? 300)

t.test('every rule comes back from its image', (t) => {
  const device = new Map([
    ['in0', 1],
    ['in1', 2],
    ['in2', 3],
    ['in3', 4],
    ['gone0', 4095],
    ['a23456789012345', 77],
  ])
  const names = new Map([...device].map(([name, number]) => [number, name]))
  const corners: FilterMatch[] = [
    {},
    { source: prefix('0.0.0.0/0') },
    { dest: prefix('::/0') },
    { source: prefix('255.255.255.255/32'), dest: prefix('128.0.0.0/1') },
    { source: prefix('::/128'), dest: prefix('ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128') },
    { source: prefix('8000::/1'), dest: prefix('2001:db8::/33') },
    { protocol: 'icmp' },
    { sourcePort: 65_535, destPorts: [1, 65_535] },
    { sourcePort: 1, destPorts: [65_535, 65_535], protocol: 'udp' },
    { mac: 'ff:ff:ff:ff:ff:ff', interface: 'a23456789012345' },
    { mac: '00:00:00:00:00:00', source: prefix('::/0') },
  ]
  const odd = corners.flatMap((match, n) => [
    ruleWith(2 ** 40 + n, match, { rank: [7, 0xfffff, 2 ** 41 - 2 - n], accept: false, fresh: true }),
    ruleWith(n + 1, match, { rank: [0, 0, n], window: { from: 0, to: 86_399, daily: true } }),
  ])
  const all = [...odd, ...mixed(2000, SEED), ...ADVERSARIES.flatMap(({ make }) => make(200, SEED))]
  for (const rule of all) {
    for (const family of familiesOf(rule.match)) {
      const image = imageOf(rule, family, device.get(rule.match.interface ?? '') ?? 0)
      const back = ruleOf(image, family, rule.key, names.get(deviceOf(image)), rule.window)
      if (filterFingerprint(back) !== filterFingerprint(rule)) return t.same(back, rule)
    }
  }
  return t.end()
})

t.test('cells of ports cover a range exactly once', (t) => {
  const draw = dice(SEED)
  const edges = [0, 1, 15, 16, 17, 255, 256, 4095, 4096, 4097, 32_768, 65_519, 65_520, 65_534, 65_535]
  const ranges: [number, number][] = edges.flatMap((a) =>
    edges.filter((b) => b >= a).map((b): [number, number] => [a, b]),
  )
  for (let n = 0; n < ROUNDS; n++) {
    const first = draw.between(0, 65_535)
    ranges.push([first, draw.between(first, draw.maybe(0.5) ? 65_535 : Math.min(65_535, first + 40))])
  }
  for (const [first, last] of ranges) {
    const covered = new Uint8Array(65_536)
    for (const length of PORT_LENGTHS) {
      const cells = cellsOf(first, last, length)
      if (cells.length > 30) return t.fail(`${first}-${last}: ${cells.length} cells of ${length}`)
      for (const from of cells)
        for (let port = from; port < from + (1 << (16 - length)); port++) covered[port] = (covered[port] ?? 0) + 1
    }
    const wrong = covered.findIndex((times, port) => times !== (port >= first && port <= last ? 1 : 0))
    if (wrong >= 0) return t.fail(`${first}-${last}: port ${wrong} is covered ${covered[wrong]} times`)
  }
  return t.end()
})

t.test('a plan finds a place for every rule in few tables', (t) => {
  const LISTS = [...[300, 3000].flatMap((count) => [mixed(count, SEED), tame(count, SEED)])]
  for (const rules of LISTS) {
    for (const family of FAMILIES) {
      const own = rules.filter(({ match }) => familiesOf(match).includes(family))
      const images = own.map((rule) => imageOf(rule, family, rule.match.interface === undefined ? 0 : 1))
      const joined = new Uint32Array(images.flatMap((image) => [...image]))
      const masks = plan(joined, family)
      const lost = images.filter((image) => !masks.some((mask) => fits(shapeOf(image, family), mask)))
      t.equal(lost.length, 0, `IPv${family}, ${own.length} rules`)
      t.ok(masks.length <= 16, `${masks.length} tables`)
      for (const mask of masks) {
        const { words, ...rest } = keyMask(mask, family)
        t.same(maskOf(words, portWord(mask), fieldsWord(mask)), { ...rest }, 'a mask comes back from its words')
      }
    }
  }
  t.end()
})

t.test('blocks do not overlap, also those that were adopted', (t) => {
  const draw = dice(SEED)
  for (let round = 0; round < 30; round++) {
    const [first, end] = [draw.between(1, 70), 4096]
    let room = new Room(4, first, end)
    let held: [number, number][] = []
    for (let step = 0; step < ROUNDS; step++) {
      if (draw.maybe(0.55)) {
        const count = draw.maybe(0.6) ? 1 : draw.between(1, 300)
        try {
          held.push([room.take(count), count])
        } catch (error) {
          if (!(error instanceof NoRoom) || error.family !== 4) throw error
        }
      } else if (held.length > 0) {
        const [block] = held.splice(draw.between(0, held.length - 1), 1)
        if (block) room.give(...block)
      }
      if (draw.maybe(0.02)) {
        room = new Room(4, first, end)
        for (const block of held) room.claim(...block)
        room.settle()
      }
    }
    const used = new Uint8Array(end)
    let sum = 0
    for (const [at, count] of held) {
      const size = 2 ** Math.ceil(Math.log2(count))
      sum += size
      if (at < first || at + size > end) return t.fail(`${at} of ${size} lies outside`)
      for (let cell = at; cell < at + size; cell++) {
        if (used[cell] === 1) return t.fail(`cell ${cell} is given out twice`)
        used[cell] = 1
      }
    }
    if (sum !== room.used) return t.equal(room.used, sum)
    held = held.filter((block) => room.give(...block))
    if (room.used !== 0) return t.equal(room.used, 0)
  }
  return t.end()
})

t.test('runs are found under their hashes, however many share a line', (t) => {
  for (const family of FAMILIES) {
    const it = arena(t, family, 4096)
    const lines = 4096 / 8
    const slots = family === 4 ? 7 : 15
    const hashes = [0, 1, 15, 16, 17, 31, 32, 511, 512, 0xffff_ffff, 0x8000_0000, 0xffff_fff0]
    // As many as one line and what continues it can hold.
    for (let n = 0; n < 4 * slots; n++) hashes.push((100 + n * lines * 16) >>> 0)
    for (const [n, hash] of hashes.entries()) it.insert(hash, [imageOf(ruleWith(n + 1, {}), family, 0)])
    const more: number[] = []
    const found = [...it.runs(more)]
    t.same(new Set(found.map(({ hash }) => hash)), new Set(hashes), 'runs tell their hashes')
    t.equal(found.length, hashes.length)
    t.equal(more.length, 3, 'cells that continue the line')
    for (const { slot, hash } of found) t.equal(it.slotOf(hash), slot)
    const { used } = it.room
    t.throws(() => it.insert((100 + 4 * slots * lines * 16) >>> 0, [new Uint32Array(family === 4 ? 16 : 32)]), {
      name: 'NoRoom',
    })
    t.equal(it.room.used, used)
    t.same([...it.runs()], found, 'and nothing has changed')
  }
  t.end()
})

t.test('a run holds up to 4095 rules by rank, and is put together anew', (t) => {
  const it = arena(t, 4, 1 << 15)
  const draw = dice(SEED)
  const ranks = Array.from({ length: 4096 }, (_, n) => n)
  for (let n = ranks.length - 1; n > 0; n--) {
    const other = draw.between(0, n)
    ;[ranks[n], ranks[other]] = [ranks[other] ?? 0, ranks[n] ?? 0]
  }
  const image = (rank: number) => imageOf(ruleWith(rank + 1, {}, { rank: [0, 0, rank] }), 4, 0)
  for (const rank of ranks.slice(0, 4095)) {
    const { freed } = it.insert(77, [image(rank)])
    if (freed) it.room.give(...freed)
  }
  const slot = it.slotOf(77) ?? 0
  t.equal(it.count(77), 4095)
  const stand = [...it.rules(slot)].map((rule) => rule[0] ?? -1)
  t.same(
    stand,
    [...ranks.slice(0, 4095)].sort((a, b) => a - b),
  )
  t.throws(() => it.insert(77, [image(5000)]), { name: 'NoRoom', family: undefined })
  t.equal(it.count(77), 4095)
  const remove = (rank: number) => {
    const freed = it.remove(slot, rank + 1)
    if (freed) it.room.give(...freed)
    return freed?.[1]
  }
  const [gone = 0] = ranks
  t.equal(remove(gone), 4095)
  t.equal(remove(gone), undefined)
  t.same(
    [...it.rules(slot)].map((rule) => rule[0]),
    stand.filter((rank) => rank !== gone),
  )
  const [ended = 0, kept = 0] = ranks.slice(1)
  t.not(it.end(slot, ended + 1, 9), undefined)
  t.equal(it.cellOf(slot, ended + 1), undefined)
  t.equal(remove(ended), undefined, 'what has an end is left to be tidied')
  for (const rank of ranks) if (rank !== kept && rank !== ended) remove(rank)
  t.equal(it.tidy(slot, 9)?.[1], 2)
  t.equal(it.cell(it.cellOf(slot, kept + 1) ?? 0)[0], kept)
  remove(kept)
  t.equal(it.slotOf(77), undefined)
  t.end()
})

t.test('tables come back from the memory, but for those that are closed', (t) => {
  const memory = tables()
  for (const family of FAMILIES) {
    const set = new TableSet(family, memory)
    const mask = (source: number): Mask => ({
      source,
      dest: 32,
      sourcePort: true,
      destPort: 12,
      mac: true,
      device: true,
    })
    const [first, second, third] = [set.take(mask(0)), set.take(mask(16)), set.take(mask(32))]
    t.equal(set.take(mask(16)), second, 'one for each mask')
    for (const table of [first, second, third]) set.lower(table, imageOf(ruleWith(1, {}), family, 0))
    set.close(second)
    const known = new TableSet(family, memory).all()
    t.same(known, [first, third])
    const image = imageOf(ruleWith(1, { mac: '02:00:00:00:00:01' }), family, 9)
    const hash = ({ mask, number }: Table) => hashOf(image, family, mask, 80, { seed: 1, table: number })
    t.same(known.map(hash), [first, third].map(hash))
    t.not(set.take(mask(20)).number, second.number, 'packets may still look there')
    set.forget(second)
    t.equal(set.take(mask(24)).number, second.number)
    for (let n = set.all().length; n < FILTER_TABLES; n++) set.take({ ...mask(0), dest: 0, source: n })
    t.throws(() => set.take(mask(8)), { name: 'NoRoom', family: undefined })
    set.close(first)
    t.throws(() => set.take(mask(8)), { name: 'NoRoom' })
    set.forget(first)
    t.equal(set.take(mask(8)).number, first.number)
  }
  t.end()
})
