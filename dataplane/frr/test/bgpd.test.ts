/** What is written to a real bgpd is read back as the same, whatever it is: else every comparison would find a difference. */
import { execFileSync } from 'node:child_process'
import { chmodSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { fc } from '../../../test/property.ts'
import '../../../test/inside.ts'
import { whyNoBgp } from '../../../test/frr.ts'
import { passages } from '../../entry.ts'
import { GroundLost, KernelRefusal } from '../../plane.ts'
import { openFrr } from '../driver.ts'
import {
  type BgpEntry,
  bgpInstance,
  bgpNeighbor,
  bgpNetwork,
  bgpOutlet,
  bgpPrefixList,
  bgpRouteMap,
  type Families,
  type Speaker,
} from '../entries.ts'
import { DAEMONS, endDaemon, otherZebra, pidOf } from '../session.ts'

const skip = whyNoBgp()
const RUNS = Number(process.env.BGP_RUNS ?? 12)
const NONE: Families<string> = { 4: '', 6: '' }
const MAIN: Speaker = { as: 65001, view: false }
/** An address of the node itself, which no bgpd takes for a neighbor. */
const OWN = '10.7.0.200'
const BESIDE: Speaker = { as: 65100, view: true }

const hex = (from: number, many: number) => fc.integer({ min: from, max: from + many - 1 })
const prefix4 = fc
  .tuple(hex(1, 200), hex(0, 256), fc.constantFrom(8, 16, 24, 32))
  .map(([a, b, length]) => `${length > 0 ? a : 0}.${length > 8 ? b : 0}.0.0/${length}`)
const prefix6 = fc
  .tuple(hex(0, 65_536), fc.constantFrom(32, 48, 64, 128))
  .map(([a, length]) =>
    a === 0 ? `2001:db8::/${length}` : `2001:db8:${length > 32 ? `${a.toString(16)}:` : ''}:/${length}`,
  )
const rule = fc.oneof(prefix4, prefix6, fc.constantFrom('0.0.0.0/0', '::/0')).chain((prefix) => {
  const [length, most] = [Number(prefix.split('/')[1]), prefix.includes(':') ? 128 : 32]
  const bound = fc.integer({ min: length, max: most })
  return fc
    .record({
      permit: fc.boolean(),
      prefix: fc.constant(prefix),
      two: fc.tuple(bound, bound),
      which: fc.integer({ min: 0, max: 3 }),
    })
    .map(({ permit, two, which }) => {
      const [ge, le] = [Math.min(...two), Math.max(...two)]
      return { permit, prefix, ge: which & 1 ? ge : 0, le: which & 2 ? le : 0 }
    })
})
const community = fc.oneof(
  fc.tuple(hex(0, 65_536), hex(0, 65_536)).map(([a, b]) => `${a}:${b}`),
  fc.constantFrom(
    '65535:0',
    '65535:1',
    '65535:2',
    '65535:3',
    '65535:4',
    '65535:5',
    '65535:6',
    '65535:7',
    '65535:8',
    '65535:9',
    '65535:666',
    '65535:667',
  ),
  fc.constantFrom(
    '0:0',
    '65535:65281',
    '65535:65282',
    '65535:65283',
    '65535:65284',
    '65535:65285',
    '65535:65535',
    'no-export',
    'no-peer',
  ),
)
const u32 = fc.integer({ min: 0, max: 4_294_967_295 })
const optional = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined })
const settings = fc.record({
  localPref: optional(u32),
  med: optional(u32),
  communities: optional(fc.array(community, { maxLength: 6 })),
  tag: optional(fc.integer({ min: 1, max: 65_000 })),
})
type Settings = typeof settings extends fc.Arbitrary<infer T> ? T : never
const rest = (prefix: string, le: number) => ({ permit: false, prefix, ge: 0, le })
const key = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 80,
})

const everything = fc.record({
  lists: fc.array(fc.array(rule, { maxLength: 8 }), { minLength: 1, maxLength: 3 }),
  maps: fc.array(fc.tuple(fc.boolean(), settings), { minLength: 1, maxLength: 4 }),
  hops: fc.uniqueArray(fc.integer({ min: 1, max: 200 }), { maxLength: 4 }),
  neighbors: fc.array(
    fc.record({
      password: fc.oneof(fc.constant(''), key),
      times: fc.constantFrom([0, 0], [3, 1], [90, 30], [180, 60], [65_535, 21_845]),
      as: fc.constantFrom(1, 65_002, 4_294_967_295),
      policy: fc.boolean(),
      bfd: optional(
        fc.record({ intervalMs: fc.constantFrom(50, 300, 60_000), multiplier: fc.constantFrom(2, 3, 255) }),
      ),
    }),
    { maxLength: 5 },
  ),
  networks: fc.uniqueArray(fc.oneof(prefix4, prefix6), { maxLength: 6 }),
})

/** A list that says what every list ends with. */
const ENDS_ITSELF = {
  lists: [[rest('0.0.0.0/0', 32), rest('::/0', 128)]],
  maps: [[true, { localPref: 1, med: undefined, communities: undefined, tag: undefined }] as [boolean, Settings]],
  ...{ hops: [], neighbors: [], networks: [] },
}

/** Everything that an area could desire. */
function rendered({
  lists,
  maps,
  hops,
  neighbors,
  networks,
}: typeof everything extends fc.Arbitrary<infer T> ? T : never): BgpEntry[] {
  const entries: BgpEntry[] = [bgpInstance(MAIN, '10.0.0.1'), bgpInstance(BESIDE, '10.0.0.1')]
  const made = lists.map((rules, id) => bgpPrefixList(id, rules))
  const rules = maps.map(([permit, set], at) => ({
    seq: at * 10 + 1,
    permit,
    match: { list: made[at % made.length]?.name ?? '', family: (at % 2 ? 6 : 4) as 4 | 6 },
    set,
  }))
  const map = bgpRouteMap('1', rules)
  const outlets = [4, 6].map((family) =>
    bgpOutlet(
      map.name,
      family as 4 | 6,
      hops.map((tag) => ({ tag, address: family === 4 ? `10.9.0.${tag}` : `fd09::${tag}` })),
    ),
  )
  entries.push(...made, map, ...outlets)
  for (const [at, it] of neighbors.entries()) {
    const speaker = at % 3 === 2 ? BESIDE : MAIN
    entries.push(
      bgpNeighbor({
        speaker,
        address: at % 2 ? `fd07::${at + 2}` : `10.7.0.${at + 2}`,
        remoteAs: it.as,
        localAs: at % 3 === 1 ? 65_200 : speaker.as,
        holdTime: it.times[0] ?? 0,
        keepalive: it.times[1] ?? 0,
        password: it.password,
        bfd: it.bfd,
        import: it.policy ? { 4: map.name, 6: map.name } : NONE,
        export: { 4: outlets[0]?.name ?? '', 6: outlets[1]?.name ?? '' },
      }),
    )
  }
  for (const prefix of networks) entries.push(bgpNetwork(MAIN, prefix, map.name), bgpNetwork(BESIDE, prefix, map.name))
  return [...new Map(entries.map((entry) => [entry.key, entry])).values()]
}

t.test(
  'whatever is applied is observed as the same, step by step, and undone',
  { skip, timeout: Number(process.env.TAP_TIMEOUT ?? 240) * 1000 - 10_000 },
  async (t) => {
    const runDir = join(mkdtempSync(join(tmpdir(), 'frr-')), 'frr')
    const places = { binDir: '/usr/lib/frr', runDir }
    execFileSync('ip', ['addr', 'add', `${OWN}/32`, 'dev', 'lo'])
    const driver = await openFrr({ ...places, onProblem: (error) => t.comment(String(error)), onLoss() {} })
    t.teardown(async () => {
      await driver.close()
      for (const name of [...DAEMONS].reverse()) await endDaemon(places, name)
      rmSync(join(runDir, '..'), { recursive: true, force: true })
    })
    chmodSync(join(runDir, '..'), 0o711)
    let held: BgpEntry[] = []
    const goTo = async (next: BgpEntry[]) => {
      await driver.apply(passages(held, next))
      const found = await driver.observe(next)
      const left = passages(found, next)
      if (left.length > 0) throw new Error(JSON.stringify(left.slice(0, 3), null, 1))
      held = next
    }
    await fc.assert(
      fc.asyncProperty(everything, async (some) => goTo(rendered(some))),
      { numRuns: RUNS, seed: Number(process.env.SEED ?? 7), endOnFailure: true, examples: [[ENDS_ITSELF]] },
    )
    t.pass(`${RUNS} configurations`)
    const owners = (dir: string, of: RegExp) =>
      readdirSync(dir).flatMap((name) => (of.test(name) ? [lstatSync(join(dir, name)).uid] : []))
    t.same(new Set(owners(join(runDir, '..'), /^frr\./)), new Set([0]), 'what root writes is where only root may write')
    t.notOk(owners(runDir, /./).includes(0), 'root writes nothing where the daemons may')
    t.equal(await otherZebra(places), undefined, 'our own zebra is no other')

    const bad = bgpNeighbor({
      speaker: MAIN,
      address: OWN,
      remoteAs: 65_002,
      localAs: 65_001,
      holdTime: 9,
      keepalive: 3,
      password: 'S3cret',
      import: NONE,
      export: NONE,
    })
    const extra = bgpPrefixList(99, [{ permit: true, prefix: '10.0.0.0/8', ge: 0, le: 0 }])
    const refused = driver.apply(passages([], [extra, bad]))
    await t.rejects(refused, KernelRefusal)
    await t.rejects(refused, /^(?!.*S3cret)/)
    t.same(passages(await driver.observe(held), held), [], 'what was refused is taken back as a whole')
    await driver.apply(passages(held, [...held, extra, bad]), 'restore')
    t.match(driver.pending?.(), [{ key: `bgp/neighbor/${OWN}`, reason: /local system/ }])
    const wanted = [...held, extra, bad]
    t.same(passages(await driver.observe(wanted), wanted), [], 'what waits is no difference')
    held = wanted
    const bgpd = Number(pidOf(places, 'bgpd'))
    process.kill(bgpd, 'SIGSTOP')
    const cut = driver.apply(
      passages(held, [...held, bgpPrefixList(100, [{ permit: true, prefix: '10.0.0.0/8', ge: 0, le: 0 }])]),
    )
    process.kill(bgpd, 'SIGKILL')
    await t.rejects(cut, GroundLost, 'nothing is in force of what bgpd did not live to do')
    t.same(await driver.observe(held), [])
    held = []
    await goTo([extra])
    await goTo([])
    while (DAEMONS.some((name) => pidOf(places, name) !== undefined)) await wait(100)
    t.pass('with nothing to say they end')
    await goTo([extra])
    await goTo([])
  },
)
