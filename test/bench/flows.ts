/**
 * What flows and accounting cost: a packet of a flow that is known, and of a new one; bulk data with flows kept and not;
 * the list of 65,000 flows; and questions to accounts of 1000 MACs over 400 days. The agent in this process, so that the
 * longest stall of its event loop can be seen.
 */
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Agent } from '../../core/agent.ts'
import { layoutDir } from '../../dataplane/bpf/bpffs.ts'
import { flowKey4, flowRow } from '../../dataplane/bpf/flow/layout.ts'
import { openMap } from '../../dataplane/bpf/map.ts'
import { PortTable } from '../../dataplane/bpf/port/ports.ts'
import { FLOW_CLOCK_BITS } from '../../dataplane/numbers.ts'
import { addDay } from '../../plugins/flows/fold.ts'
import { dayOf, slotOf } from '../../plugins/flows/keys.ts'
import { queries } from '../../plugins/flows/queries.ts'
import { emptySeries } from '../../plugins/flows/series.ts'
import { chance } from '../chance.ts'
import { type Netns, netns, netnsNamed, type Scope, veth } from '../netns.ts'
import { TOKEN } from './agent.ts'
import { quantile, type Report } from './figure.ts'
import { inProcess } from './in-process.ts'
import { bind, cast, FLOOR, INCOMING, INTERFACES, type Lane, NET, onStage, type Rig } from './port.ts'
import { watchStalls } from './stall.ts'

const ROUNDS = 7
const LISTED = 65_000
const [MACS, DAYS] = [1000, 400]
const BULK_ROUNDS = 5
const BULK_SECONDS = 1

export async function flows(report: Report): Promise<void> {
  await onStage((rig) => perPacket(rig, report))
  const undo: (() => unknown)[] = []
  const scope: Scope = { teardown: (one: () => unknown) => void undo.push(one) }
  try {
    const { agent, dir, bpfDir, close } = await inProcess('ipam', 'l2', 'networks', 'flows')
    scope.teardown(close)
    await bulk(scope, agent, report)
    await listing(agent, bpfDir, report)
    await accounting(agent, dir, report)
  } finally {
    for (const one of undo.reverse()) await one()
  }
}

async function perPacket(rig: Rig, report: Report): Promise<void> {
  const ports = new PortTable(rig.maps.ports)
  for (const ifindex of [INTERFACES.sender, INTERFACES.receiver]) ports.set(ifindex, NET)
  ports.close()
  const lane: Lane = { name: 'in', ...INCOMING }
  const floor: Lane = { name: 'floor', slot: FLOOR, ifindex: INTERFACES.sender, mark: 0, verdict: 0xffffffff }
  let bound = 0
  for (const bindings of [2, 2000, 65_536]) {
    await bind(rig, bound, bindings)
    bound = bindings
    await cast(rig, bindings, false)
    const costs = { off: [] as number[], on: [] as number[], floor: [] as number[] }
    for (let round = -1; round < ROUNDS; round++) {
      for (const which of ['floor', 'off', 'on'] as const) {
        rig.maps.flowsOff.set(0, which === 'on' ? 0 : 1)
        const ns = await rig.run(which === 'floor' ? floor : lane, bindings / 2)
        if (round >= 0) costs[which].push(ns)
      }
    }
    const low = (which: keyof typeof costs) => quantile(costs[which], 0.25)
    const goal = bindings === 2 ? 50 : bindings > 2000 ? 500 : undefined
    const figure = `packet_${bindings / 2}_flows`
    report({ figure, value: low('on') - low('off'), unit: 'ns', ...(goal && { goal }), note: 'above the same without' })
    report({
      figure: `${figure}_all`,
      value: low('on') - low('floor'),
      unit: 'ns',
      note: 'everything, above reading it',
    })
  }
  const fresh = { on: [] as number[], off: [] as number[] }
  for (let round = -1; round < ROUNDS; round++) {
    for (const which of ['off', 'on'] as const) {
      rig.maps.flowsOff.set(0, which === 'on' ? 0 : 1)
      const known = await rig.maps.flows4.lookupBatch()
      await rig.maps.flows4.deleteBatch(known.map(([key]) => key))
      const ns = await rig.run(lane, bound / 2, bound / 2)
      if (round >= 0) fresh[which].push(ns)
    }
  }
  const value = quantile(fresh.on, 0.25) - quantile(fresh.off, 0.25)
  report({ figure: 'packet_of_new_flow', value, unit: 'ns', goal: 1300, note: 'above the same without' })
}

/** One TCP connection between two workloads, with flows kept and not. */
async function bulk(scope: Scope, agent: Agent, report: Report): Promise<void> {
  const node = netnsNamed(scope, `stb${process.ppid}`)
  const [a, b] = [netns(scope, 'a'), netns(scope, 'b')]
  for (const [n, ns] of [a, b].entries()) {
    veth(scope, { ns: node, name: `tap${n}` }, { ns, name: 'eth0', addr: `192.0.2.${n + 1}/24` })
    node.run('ip', 'link', 'set', `tap${n}`, 'master', 'br-work')
  }
  await agent.plane.ports.settled()
  const server = b.spawn('iperf3', ['-s', '--forceflush'])
  if (server.stdout) await once(server.stdout, 'data')
  const rates = { on: [] as number[], off: [] as number[] }
  for (let round = -1; round < BULK_ROUNDS; round++) {
    for (const which of round % 2 ? (['on', 'off'] as const) : (['off', 'on'] as const)) {
      agent.plane.traffic.keepFlows(which === 'on')
      const rate = await throughput(a)
      if (round >= 0) rates[which].push(rate)
    }
  }
  agent.plane.traffic.keepFlows(true)
  const note = `median of ${BULK_ROUNDS}, per CPU second of both ends and the kernel`
  for (const which of ['on', 'off'] as const) {
    report({ figure: `tcp_${which}`, value: quantile(rates[which], 0.5), unit: 'Gbit', note })
  }
  const value = quantile(rates.on, 0.5) / quantile(rates.off, 0.5)
  report({ figure: 'tcp_on_over_off', value, unit: 'times', goal: 0.95, better: 'higher' })
}

/** Gigabits for each second of CPU time: others use this machine, too. */
async function throughput(ns: Netns): Promise<number> {
  const child = ns.spawn('iperf3', ['-c', '192.0.2.2', '-J', '-t', String(BULK_SECONDS), '-O', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout?.on('data', (part: Buffer) => {
    text += part
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`iperf3 ended with ${code}: ${text}`)
  const { end } = JSON.parse(text) as {
    end: {
      sum_received: { bits_per_second: number }
      cpu_utilization_percent: { host_total: number; remote_total: number }
    }
  }
  const { host_total: own, remote_total: far } = end.cpu_utilization_percent
  return end.sum_received.bits_per_second / 1e9 / ((own + far) / 100)
}

async function listing(agent: Agent, bpfDir: string, report: Report): Promise<void> {
  const map = openMap(join(layoutDir(bpfDir), 'flows4'), flowKey4, flowRow)
  const now = Number(process.hrtime.bigint() >> BigInt(FLOW_CLOCK_BITS))
  await map.updateBatch(
    Array.from({ length: LISTED }, (_, n) => [
      {
        scope: 256 + 6,
        low: Buffer.from([10, 0, n >> 8, n & 255]),
        high: Buffer.from([198, 18, 0, n & 255]),
        lowPort: n & 0xffff,
        highPort: 443,
      },
      {
        ...{ bytes: [1e6 + n, 2e6 + n] as [number, number], packets: [1000, 2000] as [number, number] },
        ...{ first: now - n, last: now, tcp: [0x12, 0x12] as [number, number], initiator: 0, inside: 0 },
      },
    ]),
  )
  map.close()
  for (const [name, path, goal] of [
    ['list', '/flows', 300],
    ['export_csv', '/flows/export?format=csv', 300],
    ['stats', '/flows/stats', 300],
    ['top', '/flows?state=active&limit=500', 20],
  ] as const) {
    const { ms, cpu, stall, bytes } = await ask(agent, path)
    report({
      figure: `${name}_65k`,
      value: cpu,
      unit: 'ms',
      goal,
      note: `CPU; ${ms.toFixed(0)} ms by the clock, ${(bytes / 1e6).toFixed(1)} MB`,
    })
    report({ figure: `${name}_65k_stall`, value: stall, unit: 'ms', goal: 20 })
  }
}

/** The median of some rounds; the longest of the stalls' median, too. */
async function ask(agent: Agent, path: string, rounds = ROUNDS) {
  const all: { ms: number; cpu: number; stall: number; bytes: number }[] = []
  for (let round = -1; round < rounds; round++) {
    const stalls = watchStalls()
    const [since, before] = [performance.now(), process.cpuUsage()]
    const bytes = await received(agent, path)
    const [ms, used] = [performance.now() - since, process.cpuUsage(before)]
    const stall = await stalls()
    if (round >= 0) all.push({ ms, cpu: (used.user + used.system) / 1000, stall, bytes })
  }
  const median = (key: keyof (typeof all)[0]) =>
    quantile(
      all.map((one) => one[key]),
      0.5,
    )
  return { ms: median('ms'), cpu: median('cpu'), stall: median('stall'), bytes: median('bytes') }
}

/** Bytes of the answer, which nobody keeps. */
async function received({ app }: Agent, path: string): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const answer = await app.inject({ method: 'GET', url: `/api/v1${path}`, headers, payloadAsStream: true })
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`)
  let bytes = 0
  for await (const part of answer.stream()) bytes += (part as Buffer).length
  return bytes
}

async function accounting(agent: Agent, dir: string, report: Report): Promise<void> {
  const { store } = agent
  const today = dayOf(slotOf(Date.now()))
  const random = chance(1)
  const month = Array.from({ length: 40 }, () => {
    const series = emptySeries()
    for (const values of [series.in, series.out]) {
      // Idle for 30 % of the day, a megabit a second else.
      for (let n = 86; n < values.length; n++) values[n] = Math.floor(-Math.log(random()) * 37_500)
    }
    return series
  })
  const size = () => statSync(join(dir, 'stratum.db')).size
  const empty = size()
  // Nothing is read meanwhile.
  await agent.pipeline.exclusively(async () => {
    store.begin()
    for (let mac = 0; mac <= MACS; mac++) {
      const [high, low] = [mac >> 8, mac & 255].map((byte) => byte.toString(16).padStart(2, '0'))
      const text = mac === 0 ? '' : `02:ce:00:00:${high}:${low}`
      const { macById, addMac } = queries(store.write)
      if (macById.get({ id: mac }) === undefined) addMac.run({ id: mac, mac: text, firstSlot: (today - DAYS) * 288 })
    }
    // Day after day, as they come.
    for (let day = today - DAYS + 1; day < today; day++) {
      for (let mac = 0; mac <= MACS; mac++) {
        const sums = { bytesIn: 1e9 + day, bytesOut: 2e9 + day, packetsIn: 1e6, packetsOut: 2e6 }
        const series = month[Math.floor(random() * month.length)] ?? emptySeries()
        addDay(store.write, mac, day, sums, { in: series.in.slice(), out: series.out.slice() })
      }
      await new Promise(setImmediate)
    }
    store.commit()
  })
  report({ figure: 'store_400_days_1000_macs', value: (size() - empty) / 1e6, unit: 'MB', goal: 600 })
  const iso = (day: number) => new Date(day * 86_400_000).toISOString()
  const all = `?start=${iso(today - DAYS)}`
  const lately = `?start=${iso(today - 31)}`
  for (const [name, path, goal, rounds] of [
    ['summary_400_days', `/accounting/summary${all}`, 500, 5],
    ['percentile_400_days', `/accounting/95th${all}`, 500, 5],
    ['billing_month', `/accounting/billing${lately}`, 2000, 3],
    ['billing_400_days', `/accounting/billing${all}`, undefined, 1],
  ] as const) {
    const { ms, cpu, stall } = await ask(agent, path, rounds)
    report({
      figure: name,
      value: cpu,
      unit: 'ms',
      ...(goal && { goal }),
      note: `CPU; ${ms.toFixed(0)} ms by the clock`,
    })
    report({ figure: `${name}_stall`, value: stall, unit: 'ms', goal: 20 })
  }
}
