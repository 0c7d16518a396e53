/**
 * The same packets through the real hook of two nodes, one with the classifier and one with nft rule by rule, and both
 * against the reference. More of it by SIZES (rules), PACKETS and NFT_SECONDS (what nft may take for a list).
 */
import '../inside.ts'
import t, { type Test } from 'tap'
import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import { bpffs } from '../../dataplane/bpf/test/support.ts'
import { FILTER_TABLES } from '../../dataplane/numbers.ts'
import { here } from '../inside.ts'
import { netns, netnsNamed, requireRoot } from '../netns.ts'
import { ADVERSARIES } from './adversarial.ts'
import { type Injector, MOST_PACKETS, openInjector } from './inject.ts'
import { lane } from './lane.ts'
import { linearNft } from './nft-text.ts'
import { type Ours, openOurs, requireClassifier } from './ours.ts'
import { asked, described, type Packet, packets } from './packets.ts'
import { type Decide, reference } from './reference.ts'
import { mixed, tame } from './rulesets.ts'

requireRoot(t)
requireClassifier(t)

const SIZES = (process.env.SIZES ?? '10,1000,10000').split(',').map(Number)
/** Packets for each list of rules. */
const PACKETS = Number(process.env.PACKETS ?? 2000)
/** Rules of an adversarial list. */
const ADVERSE = (process.env.ADVERSE ?? '1000').split(',').map(Number)
/** nft takes about so long for a rule that does not match: what limits the packets that it can be given. */
const NFT_NS = 25
const NFT_SECONDS = Number(process.env.NFT_SECONDS ?? 1)
/** Of each list so many packets are also asked of the tables. */
const TRACES = 200
const SEED = Number(process.env.SEED ?? 1)

const [mine, peer] = [lane(netnsNamed(t, here ?? '')), lane(netns(t, 'nft'))]
const injector: Injector = await openInjector()
t.teardown(() => injector.close())
for (const each of [mine, peer]) injector.watch(each)
let emptied = false
const ours: Ours = await openOurs(t, mine, bpffs(t))

t.test('control: what is sent gets through where nothing is judged, each packet once', async (t) => {
  const list = packets(mixed(100, SEED), 2000, SEED)
  await ours.hold([], true)
  peer.nft(linearNft([], true))
  await injector.load(list)
  for (const each of [mine, peer]) {
    each.forget()
    const got = injector.sendOnce(each)
    t.same(list.filter((_, n) => !got[n]).map(described), [], each.ns.name)
  }
})

for (const [index, size] of SIZES.entries()) {
  // Both defaults, in turn.
  for (const [kind, make] of [
    ['mixed', mixed],
    ['tame', tame],
  ] as const) {
    const acceptRest = (index + Number(kind === 'tame')) % 2 === 0
    t.test(`fw-23 fw-24 D66 ${size} ${kind} rules, default ${acceptRest ? 'accept' : 'deny'}`, (t) =>
      compare(t, make(size, SEED), acceptRest),
    )
  }
}

for (const size of ADVERSE) {
  for (const { name, make } of ADVERSARIES) {
    t.test(`fw-23 fw-24 D66 ${size} rules: ${name}`, (t) => compare(t, make(size, SEED + size), false))
  }
}

/** Every second list comes in the place of the one before at one instant, the others when that has gone. */
async function compare(t: Test, rules: readonly FilterRule[], acceptRest: boolean): Promise<void> {
  emptied = !emptied
  if (emptied) await ours.hold([], acceptRest)
  const list = packets(rules, PACKETS, SEED + rules.length)
  const decide = once(reference(rules))
  const forNft = Math.min(list.length, Math.floor((NFT_SECONDS * 1e9) / (NFT_NS * rules.length)))
  await ours.hold(rules, acceptRest)
  if (forNft > 0) peer.nft(linearNft(rules, acceptRest))
  const before = counts(rules)
  const verdict = (packet: Packet) => decide(packet)?.accept ?? acceptRest
  for (let at = 0; at < list.length; at += MOST_PACKETS) {
    const part = list.slice(at, at + MOST_PACKETS)
    const parts = [
      { name: 'classifier', lane: mine, part },
      { name: 'nft', lane: peer, part: part.slice(0, Math.max(0, forNft - at)) },
    ]
    for (const { name, lane, part } of parts) {
      lane.forget()
      await injector.load(part)
      const got = injector.sendOnce(lane)
      const wrong = part.filter((packet, n) => got[n] !== verdict(packet))
      t.same(wrong.slice(0, 3).map(told(decide)), [], `${name}: ${wrong.length} of ${part.length} packets judged wrong`)
    }
  }
  const deciders = list.map(decide)
  const decided = deciders.filter((rule) => rule !== undefined).length
  const accepted = list.filter(verdict).length
  t.comment(
    `${list.length} packets (${forNft} also to nft), ${decided} decided by ${new Set(deciders).size} rules, ${accepted} accepted`,
  )
  t.ok(ours.filter.accelerated, 'the classifier runs')
  await counted(t, rules, list, decide, before)
  await traced(t, list, decide, acceptRest)
  t.same(ours.problems.splice(0), [], 'nothing went wrong meanwhile')
}

/** The reference takes its time: it is asked but once for each packet. */
function once(decide: Decide): Decide {
  const known = new Map<Packet, FilterRule | undefined>()
  return (packet) => {
    if (!known.has(packet)) known.set(packet, decide(packet))
    return known.get(packet)
  }
}

const counts = (rules: readonly FilterRule[]): Map<number, bigint> =>
  new Map(rules.map(({ id }) => [id, ours.filter.count(id)?.packets ?? 0n]))

/** Which rule decided each packet: the hits of every rule are as many as the reference gives it. */
async function counted(
  t: Test,
  rules: readonly FilterRule[],
  list: readonly Packet[],
  decide: Decide,
  before: ReadonlyMap<number, bigint>,
): Promise<void> {
  const wanted = new Map<number, bigint>()
  for (const packet of list) {
    const id = decide(packet)?.id
    if (id !== undefined) wanted.set(id, (wanted.get(id) ?? 0n) + 1n)
  }
  const after = counts(rules)
  const wrong = rules.filter(({ id }) => (after.get(id) ?? 0n) - (before.get(id) ?? 0n) !== (wanted.get(id) ?? 0n))
  const shown = wrong.slice(0, 3).map(({ id }) => ({ id, wanted: wanted.get(id) ?? 0n, after: after.get(id) }))
  t.same(shown, [], `${wrong.length} of ${rules.length} rules count other packets than they decide`)
}

async function traced(t: Test, list: readonly Packet[], decide: Decide, acceptRest: boolean): Promise<void> {
  const wrong: unknown[] = []
  for (const packet of list.slice(0, TRACES)) {
    const { id, accept, probes } = await ours.filter.trace(asked(packet))
    const rule = decide(packet)
    if (id !== rule?.id || accept !== (rule?.accept ?? acceptRest)) wrong.push({ ...told(decide)(packet), id, accept })
    if (probes > FILTER_TABLES) wrong.push({ packet: described(packet), probes })
  }
  t.same(wrong.slice(0, 3), [], `${wrong.length} packets traced to another rule`)
}

const told = (decide: Decide) => (packet: Packet) => ({ packet: described(packet), rule: decide(packet) ?? 'default' })
