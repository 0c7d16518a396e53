/**
 * What limits cost while 10,000 are there: a frame of a MAC that has none, and a change of one by REST. Beside it what the
 * same costs with 1000 in tc (HTB and u32 filters by MAC) and nft (a map from MAC to limit). CPU time, rounds taking turns.
 */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Agent } from '../../core/agent.ts'
import { system } from '../../core/state/events.ts'
import { layoutDir } from '../../dataplane/bpf/bpffs.ts'
import { openObject } from '../../dataplane/bpf/object.ts'
import { runProgram } from '../../dataplane/bpf/test_run.ts'
import { putLimit } from '../../plugins/bandwidth/limits.ts'
import { netns, type Scope } from '../netns.ts'
import { TOKEN } from './agent.ts'
import { quantile, type Report } from './figure.ts'
import { inProcess } from './in-process.ts'
import { watchStalls } from './stall.ts'

const LIMITS = 10_000
const BATCH = 250
const ROUNDS = 11
const REPEAT = 100_000
const CHANGES = 200
const FRAMES = 20_000
/** Of tc: each filter is asked in turn, and 10,000 take minutes to make. */
const FILTERS = 1000
const OBJECT = fileURLToPath(new URL('../../dataplane/bpf/test/shape-cost.bpf.o', import.meta.url))

/** Of limits; the frames that are measured are of others. */
const mac = (n: number) => `02:aa:00:00:${[n >> 8, n & 255].map((it) => it.toString(16).padStart(2, '0')).join(':')}`

export async function bandwidth(report: Report): Promise<void> {
  const { agent, bpfDir, close } = await inProcess('l2', 'bandwidth')
  const undo: (() => unknown)[] = []
  try {
    await changes(agent, report)
    await frame(bpfDir, report)
    peers({ teardown: (one: () => unknown) => void undo.push(one) }, report)
  } finally {
    for (const one of undo.reverse()) await one()
    await close()
  }
}

async function changes(agent: Agent, report: Report): Promise<void> {
  const stalls = watchStalls()
  const since = performance.now()
  for (let from = 0; from < LIMITS; from += BATCH) {
    await agent.pipeline.mutate('bandwidth', system('bench'), (tx) => {
      const numbers = Array.from({ length: BATCH }, (_, n) => from + n)
      const input = (n: number) => ({ id: `l${n}`, target_mac: mac(n), rate_bps: 100_000_000 })
      const touch = numbers.flatMap((n) => putLimit(tx, input(n), { gbps: 0, max: 16_384 }).touch)
      return { result: undefined, touch: [...new Map(touch.map((ref) => [ref.id, ref])).values()], events: [] }
    })
  }
  report({ figure: 'fill_10k', value: (performance.now() - since) / 1000, unit: 's', note: `${BATCH} a change` })
  report({ figure: 'fill_10k_stall', value: await stalls(), unit: 'ms', note: 'longest, CPU time of the main thread' })
  const call = async (method: 'POST' | 'DELETE', url: string, payload?: object) => {
    const headers = { authorization: `Bearer ${TOKEN}` }
    const began = performance.now()
    const { statusCode, body } = await agent.app.inject({ method, url, headers, ...(payload && { payload }) })
    if (statusCode !== 200) throw new Error(`${method} ${url}: ${statusCode} ${body}`)
    return performance.now() - began
  }
  const path = '/api/v1/bandwidth'
  const took = { change: [] as number[], add: [] as number[], delete: [] as number[] }
  for (let n = 0; n < CHANGES; n++) {
    const body = { id: `l${n * 7}`, target_mac: mac(n * 7), rate_bps: 50_000_000 + n }
    took.change.push(await call('POST', path, body))
    took.add.push(await call('POST', path, { id: 'more', target_mac: mac(LIMITS + n), rate_bps: 1_000_000 }))
    took.delete.push(await call('DELETE', `${path}/more`))
  }
  for (const [what, times] of Object.entries(took)) {
    const goal = what === 'change' ? { goal: 3 } : {}
    report({ figure: `${what}_p50_at_10k`, value: quantile(times, 0.5), unit: 'ms', ...goal, note: 'by REST' })
  }
  const looked = performance.now()
  await agent.drift.check({ dryRun: true })
  report({ figure: 'comparison_at_10k', value: performance.now() - looked, unit: 'ms' })
}

/** Nanoseconds of CPU time that both hooks add to a frame. */
async function frame(bpfDir: string, report: Report): Promise<void> {
  const object = openObject(OBJECT, { pinDir: layoutDir(bpfDir) })
  await object.load()
  const data = Buffer.alloc(60, 2)
  data.writeUInt16BE(0x0800, 12)
  data[14] = 0x45
  const costs = { without: [] as number[], unshaped: [] as number[] }
  for (let round = -1; round < ROUNDS; round++) {
    for (const name of ['without', 'unshaped'] as const) {
      const before = process.cpuUsage()
      const { retval } = await runProgram(object.program(name).fd, { data, repeat: REPEAT })
      const { user, system: kernel } = process.cpuUsage(before)
      if (retval !== 0xffffffff) throw new Error(`${name} answered ${retval}`)
      if (round >= 0) costs[name].push(((user + kernel) * 1000) / REPEAT)
    }
  }
  object.close()
  const value = quantile(costs.unshaped, 0.25) - quantile(costs.without, 0.25)
  report({ figure: 'unshaped_frame_at_10k', value, unit: 'ns', goal: 150, note: 'both hooks, 65,536 MACs in turn' })
}

const NOTES = {
  bare: 'whole way to the other end',
  tc_u32: `the same, ${FILTERS} filters and classes`,
  nft_limit: `the same, ${LIMITS} limits in a map`,
} as const

/** Sender's CPU a frame of a MAC that no filter names, over a veth pair. */
function peers(scope: Scope, report: Report): void {
  const lanes = ['bare', 'tc_u32', 'nft_limit'] as const
  const spaces = new Map(lanes.map((lane) => [lane, pair(scope, lane)]))
  const of = (lane: (typeof lanes)[number]) => spaces.get(lane) ?? pair(scope, lane)
  filters(of('tc_u32').run)
  nft(of('nft_limit').run)
  const script = fileURLToPath(new URL('frames-out.js', import.meta.url))
  const hex = `02bb000000010${'2bb00000002'}0800${'45'.padEnd(92, '0')}`
  for (const lane of lanes) {
    const ns = of(lane)
    const index = /^([0-9]+):/.exec(ns.run('ip', '-o', 'link', 'show', 'a0'))?.[1] ?? ''
    const many = lane === 'tc_u32' ? FRAMES / 10 : FRAMES
    const value = Number(ns.run(process.execPath, script, index, String(many), hex))
    report({ figure: `peer_frame_${lane}`, value, unit: 'ns', note: NOTES[lane] })
  }
  const ns = of('tc_u32')
  const times = Array.from({ length: 20 }, (_, n) => {
    const began = performance.now()
    const rate = ['rate', `${50 + n}mbit`]
    ns.run(
      'tc',
      'class',
      'change',
      'dev',
      'a0',
      'classid',
      `1:${(n + 16).toString(16)}`,
      'parent',
      '1:',
      'htb',
      ...rate,
    )
    return performance.now() - began
  })
  report({ figure: 'peer_change_tc', value: quantile(times, 0.5), unit: 'ms', note: 'one process a change' })
}

function pair(scope: Scope, lane: string) {
  const ns = netns(scope, lane.slice(0, 4))
  ns.run('ip', 'link', 'add', 'a0', 'type', 'veth', 'peer', 'name', 'a1')
  for (const end of ['a0', 'a1']) ns.run('ip', 'link', 'set', end, 'up')
  return ns
}

type Run = (command: string, ...args: string[]) => string

function filters(run: Run): void {
  const lines = ['qdisc add dev a0 root handle 1: htb default 0']
  for (let n = 0; n < FILTERS; n++) {
    const [class_, at] = [(n + 16).toString(16), mac(n).replaceAll(':', '')]
    lines.push(`class add dev a0 parent 1: classid 1:${class_} htb rate 100mbit quantum 15000`)
    const match = `match u32 0x${at.slice(0, 8)} 0xffffffff at -8 match u16 0x${at.slice(8)} 0xffff at -4`
    lines.push(`filter add dev a0 parent 1: protocol ip prio 1 u32 ${match} flowid 1:${class_}`)
  }
  for (let from = 0; from < lines.length; from += 1000) {
    run('sh', '-c', 'printf "%s\\n" "$1" | tc -batch -', 'sh', lines.slice(from, from + 1000).join('\n'))
  }
}

const file = (name: string): string => join(tmpdir(), `stratum-bench-${process.pid}-${name}`)

function nft(run: Run): void {
  const limits = Array.from({ length: LIMITS }, (_, n) => `add limit netdev t l${n} { rate over 12500 kbytes/second; }`)
  const rows = Array.from({ length: LIMITS }, (_, n) => `${mac(n)} : "l${n}"`)
  const text = [
    'add table netdev t',
    ...limits,
    `add map netdev t m { type ether_addr : limit; elements = { ${rows.join(', ')} }; }`,
    'add chain netdev t c { type filter hook egress device a0 priority 0; }',
    'add rule netdev t c limit name ether saddr map @m drop',
  ].join('\n')
  const path = file('nft')
  execFileSync('sh', ['-c', 'cat > "$1"', 'sh', path], { input: text })
  try {
    run('nft', '-f', path)
  } finally {
    rmSync(path, { force: true })
  }
}
