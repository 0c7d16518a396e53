/**
 * How long a large node is without its agent: from exec to the first list that it answers, to the first change that it carries out
 * and until it is ready; what it then has in memory, and how long its event loop stands still afterwards. On a kernel that holds
 * nothing (reboot), and on one that holds everything (restart).
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { type Netns, netns } from '../netns.ts'
import { endResponder } from '../responder.ts'
import { cpuOf, rssOf, TOKEN } from './agent.ts'
import { makeBigState, SIZES } from './big-state.ts'
import { quantile, type Report } from './figure.ts'

/** Of all starts: each makes a rule of its own. */
let changes = 0
const ROUNDS = Number(process.env.ROUNDS ?? 3)
/** How long the event loop is watched: what begins after a start has its turn in it. */
const WATCH_MS = 15_000
const MAIN = new URL('../../core/main.js', import.meta.url).pathname
const TOLD = new URL('./stall-told.js', import.meta.url).pathname

/** Asks for a list until it is answered 200, then for a change, and says when each was answered. */
const ASK = `const https = require('node:https')
const options = (method) => ({
  method, rejectUnauthorized: false, agent: false,
  headers: { authorization: 'Bearer ${TOKEN}', 'content-type': 'application/json' },
})
const URL = 'https://127.0.0.1:7070/api/v1'
const say = (status, wanted) => console.log(status === wanted ? Date.now() : 'answered ' + status)
const change = () => https.request(URL + '/rules', options('POST'), (answer) => say(answer.resume().statusCode, 201))
  .end(JSON.stringify({ action: 'accept', source_ip: '203.0.113.' + process.argv[1] }))
const ask = () => https.request(URL + '/ipam/pools', options('GET'), (answer) => {
  say(answer.resume().statusCode, 200)
  change()
}).on('error', () => setTimeout(ask, 10)).end()
ask()`

interface Started {
  /** s, of the clock, until a list is answered, a change is carried out, and the agent says that it is ready. */
  read: number
  change: number
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
  const asker = createInterface({ input: outputOf(ns.spawn(process.execPath, ['-e', ASK, String(++changes)])) })
  const answered = asker[Symbol.asyncIterator]()
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
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const pid = child.pid ?? 0
  const said = createInterface({ input: outputOf(child) })
  const isReady = new Promise<number>((resolve) => {
    said.on('line', (text) => text.includes('"msg":"ready"') && resolve(Date.now()))
  })
  const after = (at: unknown) => (Number(at) - since) / 1000
  const read = after((await answered.next()).value)
  const change = after((await answered.next()).value)
  const ready = after(await isReady)
  const [cpu, rss] = [cpuOf(pid), rssOf(pid)]
  child.kill('SIGUSR2')
  await wait(WATCH_MS)
  const told = line(child, child.stderr)
  child.kill('SIGUSR2')
  const stall = Number((await told).replace('stall ', ''))
  child.kill('SIGTERM')
  await once(child, 'exit')
  return { read, change, ready, cpu, rss, stall }
}

function outputOf({ stdout }: ChildProcess): Readable {
  if (stdout === null) throw new TypeError('no output')
  return stdout
}

async function line(child: ChildProcess, from = child.stdout): Promise<string> {
  if (from === null) throw new TypeError('no output')
  for await (const text of createInterface({ input: from })) return text
  throw new Error('ended without a word')
}

function tell(report: Report, kind: string, all: readonly Started[]): void {
  const middle = (of: (one: Started) => number) => quantile(all.map(of), 0.5)
  const goals = kind === 'reboot' ? { read: 1, change: 7 } : { read: 1, change: 3 }
  for (const what of ['read', 'change'] as const) {
    const figure = `${kind}_first_${what}`
    report({ figure, value: middle((one) => one[what]), unit: 's', goal: goals[what], note: `median of ${all.length}` })
  }
  report({
    figure: `${kind}_ready`,
    value: middle(({ ready }) => ready),
    unit: 's',
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
