/**
 * How long a large node is without its agent: from exec to the first answer of GET /health, what it then has in memory, and
 * how long its event loop stands still afterwards. On a kernel that holds nothing (reboot), and on one that holds
 * everything (restart).
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { type Netns, netns } from '../netns.ts'
import { endResponder } from '../responder.ts'
import { cpuOf, rssOf } from './agent.ts'
import { makeBigState, SIZES } from './big-state.ts'
import { quantile, type Report } from './figure.ts'

const ROUNDS = Number(process.env.ROUNDS ?? 3)
/** How long the event loop is watched: what begins after a start has its turn in it. */
const WATCH_MS = 15_000
const MAIN = new URL('../../core/main.js', import.meta.url).pathname
const TOLD = new URL('./stall-told.js', import.meta.url).pathname

/** Asks until it is answered 200, and says when that was. */
const ASK = `const ask = () => {
  const again = () => setTimeout(ask, 20)
  require('node:https').get('https://127.0.0.1:7070/api/v1/health', { rejectUnauthorized: false, agent: false }, (answer) => {
    answer.resume()
    if (answer.statusCode === 200) console.log(Date.now())
    else again()
  }).on('error', again)
}
ask()`

interface Started {
  /** s, of the clock. */
  ready: number
  /** s, of all threads of the agent until then. */
  cpu: number
  /** MB */
  rss: number
  /** ms */
  stall: number
}

export async function start(report: Report): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  const since = performance.now()
  try {
    await makeBigState(dir)
    report({ figure: 'made', value: (performance.now() - since) / 1000, unit: 's', note: JSON.stringify(SIZES) })
    const [cold, warm]: [Started[], Started[]] = [[], []]
    for (let round = 0; round < ROUNDS; round++) await boot(dir, cold, warm)
    tell(report, 'reboot', cold)
    tell(report, 'restart', warm)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** In a namespace that is new, and once more in the same. */
async function boot(dir: string, cold: Started[], warm: Started[]): Promise<void> {
  const removals: (() => unknown)[] = []
  const ns = netns({ teardown: (remove: () => unknown) => void removals.push(remove) }, 'start')
  const bpfDir = `/sys/fs/bpf/${ns.name}`
  try {
    cold.push(await started(ns, dir, bpfDir))
    warm.push(await started(ns, dir, bpfDir))
  } finally {
    await endResponder(join(dir, 'responder.sock'))
    for (const remove of removals) await remove()
    rmSync(bpfDir, { recursive: true, force: true })
  }
}

async function started(ns: Netns, dir: string, bpfDir: string): Promise<Started> {
  const asker = ns.spawn(process.execPath, ['-e', ASK])
  const answered = line(asker)
  const { PROFILE = '', ...rest } = process.env
  const profile = PROFILE === '' ? [] : ['--cpu-prof', `--cpu-prof-dir=${PROFILE}`]
  const env = {
    ...rest,
    STRATUM_STATE_DIR: dir,
    STRATUM_RUN_DIR: dir,
    STRATUM_CONFIG: join(dir, 'none.json'),
    STRATUM_BPF_DIR: bpfDir,
  }
  const since = Date.now()
  const child = ns.spawn(process.execPath, [...profile, '--import', TOLD, MAIN], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const pid = child.pid ?? 0
  const ready = (Number(await answered) - since) / 1000
  const [cpu, rss] = [cpuOf(pid), rssOf(pid)]
  child.kill('SIGUSR2')
  await wait(WATCH_MS)
  const told = line(child, child.stderr)
  child.kill('SIGUSR2')
  const stall = Number((await told).replace('stall ', ''))
  child.kill('SIGTERM')
  await once(child, 'exit')
  return { ready, cpu, rss, stall }
}

async function line(child: ChildProcess, from = child.stdout): Promise<string> {
  if (from === null) throw new TypeError('no output')
  for await (const text of createInterface({ input: from })) return text
  throw new Error('ended without a word')
}

function tell(report: Report, kind: string, all: readonly Started[]): void {
  const middle = (of: (one: Started) => number) => quantile(all.map(of), 0.5)
  report({
    figure: `${kind}_ready`,
    value: middle(({ ready }) => ready),
    unit: 's',
    goal: 5,
    note: `median of ${all.length}, ${middle(({ cpu }) => cpu).toFixed(1)} s of CPU`,
  })
  report({
    figure: `${kind}_rss`,
    value: middle(({ rss }) => rss),
    unit: 'MB',
    goal: 350,
    note: 'the agent when it is ready',
  })
  report({
    figure: `${kind}_stall`,
    value: Math.max(...all.map(({ stall }) => stall)),
    unit: 'ms',
    goal: 50,
    note: `longest in ${WATCH_MS / 1000} s after that`,
  })
}
