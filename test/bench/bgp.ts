/**
 * What BGP costs: a batch of configuration and an announcement until the peer has it, in interleaved rounds; and listing many
 * received routes as a stream. `STRATUM_BENCH_ROUTES`: how many; default a million.
 */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import { passages } from '../../dataplane/entry.ts'
import { openFrr } from '../../dataplane/frr/driver.ts'
import {
  type BgpEntry,
  bgpInstance,
  bgpNeighbor,
  bgpNetwork,
  bgpOutlet,
  bgpRouteMap,
  type Families,
  type Speaker,
} from '../../dataplane/frr/entries.ts'
import { DAEMONS, endDaemon } from '../../dataplane/frr/session.ts'
import { quantile, type Report } from './figure.ts'

const ROUTES = Number(process.env.STRATUM_BENCH_ROUTES ?? 1_000_000)
const ROUNDS = 40
const MAIN: Speaker = { as: 65_001, view: false }
const NONE: Families<string> = { 4: '', 6: '' }
const PEER = '10.7.0.2'

const run = (line: string) =>
  execFileSync(line.split(' ')[0] ?? '', line.split(' ').slice(1), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 1 << 28,
  })

export async function bgp(report: Report): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  chmodSync(dir, 0o711)
  const peer = `stbp${process.pid}`
  run(`ip netns add ${peer}`)
  run(`ip link add e0 type veth peer name e0 netns ${peer}`)
  run('ip address add 10.7.0.1/24 dev e0')
  run('ip link set e0 up')
  run(`ip -n ${peer} address add ${PEER}/24 dev e0`)
  run(`ip -n ${peer} link set e0 up`)
  const places = { binDir: '/usr/lib/frr', runDir: join(dir, 'frr') }
  const driver = await openFrr({ ...places, onProblem: (error) => process.stderr.write(`${error}\n`), onLoss() {} })
  const bird = startBird(peer, dir)
  try {
    await measure(driver, dir, report)
  } finally {
    await driver.close()
    bird.kill('SIGKILL')
    for (const name of [...DAEMONS].reverse()) await endDaemon(places, name)
    run(`ip netns del ${peer}`)
    rmSync(dir, { recursive: true, force: true })
  }
}

/** Routes come from a static protocol each; a million of them are read in seconds. */
function startBird(peer: string, dir: string) {
  const routes = Array.from(
    { length: ROUTES },
    (_, at) => `route 100.${at >> 16}.${(at >> 8) & 255}.${at & 255}/32 blackhole;`,
  )
  writeFileSync(
    join(dir, 'bird.conf'),
    `router id ${PEER}; protocol device {} protocol static { ipv4; ${routes.join('\n')} }
protocol bgp p1 { local ${PEER} as 65002; neighbor 10.7.0.1 as 65001; connect retry time 1; error wait time 1,2; connect delay time 1;
ipv4 { import all; export where source = RTS_STATIC; }; }`,
  )
  return spawn(
    'nsenter',
    [`--net=/run/netns/${peer}`, 'bird', '-f', '-c', join(dir, 'bird.conf'), '-s', join(dir, 'bird.ctl')],
    { stdio: 'ignore' },
  )
}

async function measure(driver: Awaited<ReturnType<typeof openFrr>>, dir: string, report: Report): Promise<void> {
  const outlets = [bgpOutlet('', 4, []), bgpOutlet('', 6, [])]
  const neighbor = (address: string) =>
    bgpNeighbor({
      ...{ speaker: MAIN, address, remoteAs: 65_002, localAs: 65_001, holdTime: 90, keepalive: 30, password: '' },
      import: NONE,
      export: { 4: outlets[0]?.name ?? '', 6: outlets[1]?.name ?? '' },
    })
  const plain = bgpRouteMap('attributes', [{ seq: 1, permit: true }])
  let held: BgpEntry[] = [bgpInstance(MAIN, '10.0.0.1'), ...outlets, plain, neighbor(PEER)]
  await driver.apply(passages([], held))
  const state = async () => (await driver.bgp.neighbors())[0]
  while ((await state())?.state !== 'Established') await wait(50)
  const since = performance.now()
  while (((await driver.bgp.prefixes())[0] ?? 0) < ROUTES) await wait(500)
  process.stderr.write(`${ROUTES} routes after ${Math.round(performance.now() - since)} ms\n`)

  const batches: number[] = []
  const announced: number[] = []
  const seen = (prefix: string) => {
    try {
      return run(`birdc -s ${join(dir, 'bird.ctl')} show route for ${prefix}`).includes('p1')
    } catch {
      return false
    }
  }
  for (let round = 0; round < ROUNDS; round++) {
    const extra = neighbor(`10.7.0.${round + 10}`)
    let from = performance.now()
    await driver.apply(passages(held, [...held, extra]))
    batches.push(performance.now() - from)
    await driver.apply(passages([...held, extra], held))
    const prefix = `192.0.${round}.0/24`
    from = performance.now()
    const next = [...held, bgpNetwork(MAIN, prefix, plain.name)]
    await driver.apply(passages(held, next))
    held = next
    while (!seen(prefix)) await wait(1)
    announced.push(performance.now() - from)
  }
  report({ figure: 'one neighbor more, p50', value: quantile(batches, 0.5), unit: 'ms', goal: 5 })
  report({ figure: 'one neighbor more, p95', value: quantile(batches, 0.95), unit: 'ms' })
  report({ figure: 'announced until the peer shows it, p50', value: quantile(announced, 0.5), unit: 'ms', goal: 150 })

  globalThis.gc?.()
  const before = process.memoryUsage().rss
  const delay = monitorEventLoopDelay({ resolution: 1 })
  let [count, peak] = [0, before]
  const from = performance.now()
  delay.enable()
  for await (const routes of driver.bgp.routes(4)) {
    count += routes.length
    peak = Math.max(peak, process.memoryUsage.rss())
  }
  delay.disable()
  const took = performance.now() - from
  if (count !== ROUTES) throw new Error(`${count} of ${ROUTES} routes were listed`)
  report({ figure: 'routes listed', value: count, unit: '' })
  report({ figure: 'time to list them', value: took, unit: 'ms' })
  report({ figure: 'growth of RSS while they are listed', value: (peak - before) / 1e6, unit: 'MB', goal: 60 })
  report({ figure: 'longest stall of the event loop', value: delay.max / 1e6, unit: 'ms', goal: 50 })
}
