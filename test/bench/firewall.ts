/**
 * What the firewall costs a packet: the classifier beside nft rule by rule and iptables-legacy, over a floor that knows
 * established from new and nothing else. CPU time of the thread that brings the packets in, rounds in turn, lower quartile.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureBpffs } from '../../dataplane/bpf/bpffs.ts'
import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import { dice } from '../firewall/dice.ts'
import { type Injector, openInjector } from '../firewall/inject.ts'
import type { Ours } from '../firewall/ours.ts'
import { asked, described, inside, type Packet, PROTOCOLS, packets } from '../firewall/packets.ts'
import { reference } from '../firewall/reference.ts'
import { mixed } from '../firewall/rulesets.ts'
import { netnsNamed, type Scope } from '../netns.ts'
import { quantile, type Report, spread } from './figure.ts'
import { connections } from './firewall-connections.ts'
import { type Contender, type Contest, contest, cut, establish, uncut } from './firewall-lanes.ts'
import { rest } from './firewall-rest.ts'
import { updates } from './firewall-updates.ts'

const SIZES = (process.env.SIZES ?? '10,1000,10000,100000').split(',').map(Number)
const ROUNDS = 11
/** CPU time of one contender in one round, ns; a packet that costs milliseconds gets fewer than this. */
const ROUND_NS = 50e6
const [FEWEST, MOST] = [64, 60_000]
const FLOWS = 64
const CHECKED = 1000
const SEED = 1

/** Above the floor, us a packet. */
const GOALS: Readonly<Record<number, number>> = { 1000: 0.6, 10000: 0.9, 100000: 1.0 }
const TRACE_GOAL = 1.2
/** Times cheaper than the others, with this many rules. */
const RATIO_GOALS: Readonly<Record<number, Partial<Record<string, number>>>> = {
  10000: { iptables: 25, nft: 150 },
  100000: { iptables: 300, nft: 1500 },
}

type Workload = 'miss' | 'trace' | 'est'

export async function firewall(report: Report): Promise<void> {
  // On one processor: what it costs to move is nobody's cost.
  execFileSync('taskset', ['-cp', String(cpus().length - 1), String(process.pid)], { stdio: 'ignore' })
  const undo: (() => unknown)[] = []
  const scope: Scope = { teardown: (one: () => unknown) => void undo.push(one) }
  try {
    const root = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
    scope.teardown(() => rmdirSync(root))
    ensureBpffs(root)
    scope.teardown(() => execFileSync('umount', [root]))
    const injector = await openInjector()
    scope.teardown(() => injector.close())
    const all = await contest(scope, netnsNamed(scope, `stb${process.ppid}`), root)
    for (const name of all.missing) process.stderr.write(`not compared with ${name}\n`)
    await measure(all, injector, scope, report)
    for (const problem of all.ours.problems) process.stderr.write(`the classifier had a problem: ${problem}\n`)
    await rest(scope, report)
  } finally {
    for (const one of undo.reverse()) await one()
  }
}

async function measure({ all, ours }: Contest, injector: Injector, scope: Scope, report: Report): Promise<void> {
  const flows = standing()
  for (const each of all) {
    injector.watch(each.lane)
    await establish(injector, each, flows)
    cut(each)
  }
  const costs = new Map<string, readonly number[]>()
  const rounds = (name: string, workload: Workload, size: number) => costs.get(`${name} ${workload} ${size}`) ?? []
  const cost = (name: string, workload: Workload, size: number) => quantile(rounds(name, workload, size), 0.25)
  const over = (name: string, workload: Workload, size: number) =>
    (cost(name, workload, size) - cost('floor', workload, size)) / 1000
  for (const size of SIZES) {
    const rules = mixed(size, SEED)
    const since = new Map<string, number>()
    for (const each of all) {
      // Of what was there before nothing is left, neither in the classifier's choice of tables.
      await each.hold([])
      const start = performance.now()
      await each.hold(rules)
      since.set(each.name, performance.now() - start)
    }
    await judgesRight(ours, rules)
    await injector.load(flows)
    for (const each of all) {
      if (!injector.sendOnce(each.lane).every(Boolean)) throw new Error(`${each.name} drops what is established`)
    }
    for (const [workload, list] of Object.entries({ ...fresh(rules), est: flows }) as [Workload, Packet[]][]) {
      for (const [name, times] of await sample(injector, all, list)) costs.set(`${name} ${workload} ${size}`, times)
    }
    tell(report, size, { all, rounds, cost, over, since, detail: ours.filter.detail() })
    if (size >= 10_000) {
      await updates(ours, rules, label(size), report)
      await judgesRight(ours, rules)
    }
  }
  if (SIZES.includes(10_000)) {
    // Last: so many connections push those that stand out of conntrack.
    const rules = mixed(10_000, SEED)
    for (const each of all) {
      await each.hold([])
      await each.hold(rules)
      uncut(each)
    }
    await connections(scope, all, rules, report)
  }
  const growth = over('ours', 'miss', 100_000) / over('ours', 'miss', 1000)
  if (!Number.isNaN(growth)) report({ figure: 'new_100k_over_1k', value: growth, unit: 'times', goal: 2.5 })
}

/** Throws when the classifier's tables say something else than the rules: its figures would be of another firewall. */
async function judgesRight({ filter }: Ours, rules: readonly FilterRule[]): Promise<void> {
  const decide = reference(rules)
  const wrong: Packet[] = []
  for (const packet of packets(rules, CHECKED, SEED)) {
    if ((await filter.trace(asked(packet))).id !== decide(packet)?.id) wrong.push(packet)
  }
  const [first] = wrong
  if (first) throw new Error(`${wrong.length} of ${CHECKED} packets are judged wrong, such as ${described(first)}`)
}

interface Results {
  all: readonly Contender[]
  /** Nanoseconds a packet, of each round. */
  rounds(name: string, workload: Workload, size: number): readonly number[]
  /** Their lower quartile. */
  cost(name: string, workload: Workload, size: number): number
  over(name: string, workload: Workload, size: number): number
  since: ReadonlyMap<string, number>
  detail: string
}

function tell(report: Report, size: number, { all, rounds, cost, over, since, detail }: Results): void {
  const at = label(size)
  for (const workload of ['miss', 'est'] as const) {
    // Of the machine and its neighbours, since nothing of ours is in it: what a reader may take for noise below.
    const noise = spread(rounds('floor', workload, size))
    const what = workload === 'miss' ? 'a new packet, dropped' : 'one of a standing connection, forwarded'
    const note = `p25 of ${ROUNDS}, ${what}; ${noise}`
    report({ figure: `floor_${workload}_${at}`, value: cost('floor', workload, size), unit: 'ns', note })
  }
  const goal = GOALS[size]
  const apart = (workload: Workload) => {
    const floor = rounds('floor', workload, size)
    return `half of the floor's rounds within ${((quantile(floor, 0.75) - quantile(floor, 0.25)) / 1000).toPrecision(2)} us`
  }
  const note = `no rule matches; ${apart('miss')}; ${detail}`
  const miss = over('ours', 'miss', size)
  report({ figure: `new_${at}_over_floor`, value: miss, unit: 'us', note, ...(goal && { goal }) })
  const trace = over('ours', 'trace', size)
  report({
    figure: `trace_${at}_over_floor`,
    value: trace,
    unit: 'us',
    note: `inside a rule; ${apart('trace')}`,
    goal: TRACE_GOAL,
  })
  report({
    figure: `established_${at}_over_floor`,
    value: cost('ours', 'est', size) / cost('floor', 'est', size),
    unit: 'times',
    note: apart('est'),
    goal: 1.05,
  })
  for (const { name } of all.filter(({ name }) => name === 'nft' || name === 'iptables')) {
    for (const workload of ['miss', 'trace'] as const) {
      const value = over(name, workload, size)
      report({ figure: `${name}_${workload}_${at}_over_floor`, value, unit: 'us' })
    }
    const goal = RATIO_GOALS[size]?.[name]
    const value = over(name, 'miss', size) / miss
    report({ figure: `${name}_over_ours_${at}`, value, unit: 'times', better: 'higher', ...(goal && { goal }) })
  }
  for (const { name } of all.slice(1)) {
    report({
      figure: `load_${at}_${name}`,
      value: since.get(name) ?? Number.NaN,
      unit: 'ms',
      note: 'all rules at once',
    })
  }
}

/** Nanoseconds a packet of each contender, of each round. */
async function sample(
  injector: Injector,
  all: readonly Contender[],
  list: readonly Packet[],
): Promise<ReadonlyMap<string, readonly number[]>> {
  await injector.load(list)
  const counts = new Map<string, number>()
  for (const { name, lane } of all) {
    const first = injector.send(lane, FEWEST)
    const many = clamp(ROUND_NS / 4 / first)
    counts.set(name, clamp(ROUND_NS / (many > FEWEST ? injector.send(lane, many) : first)))
  }
  const samples = new Map(all.map(({ name }) => [name, [] as number[]]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const { name, lane } of all) {
      samples.get(name)?.push(injector.send(lane, counts.get(name) ?? FEWEST, 'in0', round * 997))
    }
  }
  return samples
}

const clamp = (count: number) => Math.max(FEWEST, Math.min(MOST, Math.floor(count)))

/** Connections that stand before any rule does. */
const standing = (): Packet[] =>
  Array.from({ length: FLOWS }, (_, n) => ({
    family: 4,
    source: [((20 << 24) | (1 << 16) | n) >>> 0],
    dest: [((60 << 24) | (1 << 16) | (n * 7)) >>> 0],
    protocol: PROTOCOLS.udp,
    sourcePort: 10_000 + n,
    destPort: 53,
    ident: 0,
    interface: 'in0',
    mac: '02:ab:00:00:00:01',
  }))

/** New IPv4 packets by one device: such as no rule matches, and random points inside rules. */
function fresh(rules: readonly FilterRule[]): Record<'miss' | 'trace', Packet[]> {
  const most = rules.length >= 100_000 ? 1024 : 4096
  const decide = reference(rules)
  const draw = dice(SEED + rules.length)
  const here = (packet: Packet): Packet => ({ ...packet, interface: 'in0' })
  const miss: Packet[] = []
  for (let seed = 1; miss.length < most; seed++) {
    const list = packets(rules, most, seed).filter(({ family }) => family === 4)
    miss.push(...list.map(here).filter((packet) => decide(packet) === undefined))
  }
  const trace: Packet[] = []
  while (trace.length < most) {
    const packet = here(inside(draw, draw.pick(rules), rules))
    if (packet.family === 4) trace.push(packet)
  }
  return { miss: miss.slice(0, most), trace }
}

const label = (size: number): string => (size >= 1000 ? `${size / 1000}k` : String(size))
