/**
 * Any sequence of changes, refused ones and taken back ones among them: what the driver believes, what it observes and
 * what iproute2 says of the kernel stay the same, and what others made stays as it was.
 */

import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { fc } from '../../../test/property.ts'
import { passages } from '../../entry.ts'
import { KernelRefusal } from '../../plane.ts'
import type { NetlinkDriver } from '../driver.ts'
import {
  address,
  bridge,
  forwarding,
  identityOf,
  link,
  member,
  type NetlinkEntry,
  neighbour,
  policy,
  route,
} from '../entries.ts'
import { FLOOD } from '../fdb.ts'
import { change, differing, dump, ip, openDriver, quiet, site } from './driver-rig.ts'

/** How many sequences; RUNS makes a long run. */
const RUNS = Number(process.env.RUNS ?? 12)

if (requireRoot(t) && here !== undefined) all()

const MAC = '02:00:00:00:00:0'
const to = (gateway: string) => route('x', { destination: '10.6.0.0/16', gateway })
const to6 = (fields: object) => route('y', { destination: 'fd06::/32', ...fields })

/** One key each, with the forms that it may take besides none. */
const SLOTS: NetlinkEntry[][] = [
  [bridge('x', 'br1', { mac: `${MAC}1`, mtu: 1500 }), bridge('x', 'br1', { mac: `${MAC}2`, mtu: 1400 })],
  [bridge('y', 'br2', { mac: `${MAC}3` })],
  [
    link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' } }),
    link('x', { name: 'st1', device: { type: 'veth', peer: 'st1p' }, master: 'br1' }),
    link('x', { name: 'st1', device: { type: 'vxlan', vni: 8 } }),
  ],
  [
    link('y', { name: 'vx7', device: { type: 'vxlan', vni: 7, local: '10.1.0.1' } }),
    link('y', { name: 'vx7', device: { type: 'vxlan', vni: 7, local: '10.1.0.1' }, master: 'br2', isolated: true }),
  ],
  [member('x', 'nic', 'br1'), member('x', 'nic', 'br2')],
  [member('y', 'st1p', 'br2')],
  [address('x', { link: 'left', address: '10.5.0.1/24' })],
  [
    address('y', { link: 'left', address: '10.5.1.2/24' }),
    address('y', { link: 'left', address: '10.5.1.2/24', scope: 253 }),
  ],
  [address('x', { link: 'br1', address: '10.20.0.1/24' })],
  [address('x', { link: 'br1', address: 'fd20::1/64' })],
  [
    to('10.1.0.2'),
    to('10.1.0.3'),
    to('10.20.0.2'),
    to('10.1.0.1'),
    route('x', { destination: '10.6.0.0/16', type: 'blackhole' }),
  ],
  [
    to6({ gateway: 'fd01::2' }),
    to6({ gateway: 'fd20::2' }),
    to6({ link: 'left' }),
    to6({ type: 'unreachable' }),
    to6({ link: 'br1' }),
  ],
  [route('y', { destination: '10.7.0.0/16', link: 'vx7', table: 77 })],
  [policy('x', { priority: 50, from: '10.9.0.0/16', table: 9 })],
  [policy('x', { priority: 50, from: '10.9.0.0/16', iif: 'left', table: 9 })],
  [policy('y', { version: 6, priority: 50, fwmark: 1, table: 9 })],
  [
    neighbour('x', { link: 'left', address: '10.1.0.5', mac: `${MAC}5` }),
    neighbour('x', { link: 'left', address: '10.1.0.5', mac: `${MAC}6` }),
  ],
  [neighbour('y', { link: 'br1', address: 'fd20::9', mac: `${MAC}7` })],
  [forwarding('y', { link: 'vx7', mac: FLOOD, vtep: '10.1.0.2' })],
  [forwarding('y', { link: 'vx7', mac: FLOOD, vtep: '10.1.0.3' })],
  [
    forwarding('y', { link: 'vx7', mac: `${MAC}8`, vtep: '10.1.0.2' }),
    forwarding('y', { link: 'vx7', mac: `${MAC}8`, vtep: '10.1.0.3' }),
  ],
]

interface Step {
  /** Slot and form; 0 is none. */
  set: [slot: number, form: number][]
  takeBack: boolean
}

const step: fc.Arbitrary<Step> = fc.record({
  set: fc.array(
    fc.nat(SLOTS.length - 1).chain((slot) => fc.tuple(fc.constant(slot), fc.nat(SLOTS[slot]?.length ?? 0))),
    { minLength: 1, maxLength: 4 },
  ),
  takeBack: fc.boolean(),
})

/** Identities of what is ours, by iproute2 alone. It does not tell who made an address: all on known prefixes count. */
function kernelHolds(): string[] {
  const { links, addresses, routes, rules, neighbours, forwarding: forwards } = dump()
  const own = (protocol: unknown) => protocol === '240' || protocol === '241'
  return [
    ...links.flatMap(({ ifname, ifalias }) => (/^stratum:[xy]$/.test(String(ifalias)) ? [`link/${ifname}`] : [])),
    ...links.flatMap(({ ifname, cost }) => (cost === 240 || cost === 241 ? [`member/${ifname}`] : [])),
    ...addresses.flatMap(({ dev, local, prefixlen }) =>
      /^(10\.5\.|10\.20\.|fd20:)/.test(String(local)) ? [`address/${dev}/${local}/${prefixlen}`] : [],
    ),
    ...routes.flatMap(({ protocol, table = 'main', dst, metric = 0 }) =>
      own(protocol) ? [`route/${table === 'main' ? 254 : table}/${dst}/${metric}`] : [],
    ),
    ...rules.flatMap((rule) => (own(rule.protocol) ? [ruleIdentity(rule)] : [])),
    ...neighbours.flatMap(({ dst, dev, state }) =>
      (state as string[]).includes('PERMANENT') ? [`neighbour/${dev}/${dst}`] : [],
    ),
    ...forwards.map((line) => line.replace(/^(\S+) dev (\S+) dst (\S+)$/, 'fdb/$2/$1/$3')),
  ].sort()
}

function ruleIdentity(rule: Record<string, unknown>): string {
  const words = [
    ...(rule.src === 'all' ? [] : [`from=${rule.src}/${rule.srclen}`]),
    ...(rule.fwmark === undefined ? [] : [`fwmark=${Number(rule.fwmark)}`, 'fwmask=4294967295']),
    ...(rule.iif === undefined ? [] : [`iif=${rule.iif}`]),
    `table=${rule.table}`,
  ]
  return `policy/${rule.priority}/${rule.version}/${words.join(',')}`
}

/** As drift detection does: until nothing is due. Returns whether anything was. */
async function passes(driver: NetlinkDriver, desired: NetlinkEntry[]): Promise<boolean> {
  let any = false
  for (let n = 0; n < 4 && (await driver.changedByOthers()); n++) {
    any = true
    await driver.apply(await differing(driver, desired), 'restore')
  }
  return any
}

function all() {
  quiet()
  site('left')
  ip('link', 'add', 'nic', 'type', 'veth', 'peer', 'name', 'nicp')

  t.test('any sequence of changes leaves driver, observation and kernel agreed', { timeout: 95_000 }, async (t) => {
    const driver = await openDriver(t)
    const empty = dump()
    const counts = { accepted: 0, refused: 0, takenBack: 0, healed: 0 }

    async function follow(steps: readonly Step[], full: boolean): Promise<void> {
      // With all of it at first, what is removed takes other things along; with none, much is refused.
      let forms: number[] = SLOTS.map(() => (full ? 1 : 0))
      let desired = full ? SLOTS.flatMap(([entry]) => entry ?? []) : []
      await change(driver, passages([], desired))
      for (const { set, takeBack } of steps) {
        const next = [...forms]
        for (const [slot, form] of set) next[slot] = form
        const wanted = next.flatMap((form, slot) => SLOTS[slot]?.[form - 1] ?? [])
        const before = dump()
        const waiting = driver.pending().length
        try {
          const undo = await change(driver, passages(desired, wanted))
          counts.accepted++
          if (takeBack && !(await driver.changedByOthers()) && waiting === 0) {
            await undo()
            counts.takenBack++
            same(dump(), before, 'taken back')
          } else {
            forms = next
            desired = wanted
          }
        } catch (error) {
          if (!(error instanceof KernelRefusal)) throw error
          counts.refused++
          same(dump(), before, `refused: ${error.message}`)
        }
        // The kernel removes what rests on what is removed; that is found and waits.
        if (await passes(driver, desired)) counts.healed++
        same(await differing(driver, desired), [], 'observed')
        // What waits may stand as it was before.
        const pending = new Set(driver.pending().map(({ key }) => identityOf(key)))
        const inForce = desired.map(({ key }) => identityOf(key)).filter((identity) => !pending.has(identity))
        const holds = kernelHolds().filter((identity) => !pending.has(identity))
        same(holds, inForce.sort(), 'iproute2')
      }
      await change(driver, passages(desired, []))
      await passes(driver, [])
      same(dump(), empty, 'all removed')
    }

    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 8 }), fc.boolean(), follow), {
      numRuns: RUNS,
      endOnFailure: true,
    })
    t.comment(JSON.stringify(counts))
    t.ok(counts.accepted > RUNS && counts.refused + counts.healed > 0, JSON.stringify(counts))
  })
}

function same(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a, undefined, 1), JSON.stringify(b, undefined, 1)]
  if (left !== right) throw new Error(`${what}:\n${difference(left, right)}`)
}

function difference(a: string, b: string): string {
  const [left, right] = [a.split('\n'), b.split('\n')]
  return [
    ...left.filter((it) => !right.includes(it)).map((it) => `- ${it}`),
    ...right.filter((it) => !left.includes(it)).map((it) => `+ ${it}`),
  ].join('\n')
}
