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
import { caller, type Told } from '../caller.ts'
import { type Netns, netns } from '../netns.ts'
import { endResponder } from '../responder.ts'
import { socketKeeper } from '../socket-keeper.ts'
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

interface Rounds {
  cold: Started[]
  warm: Started[]
  /** Of whoever asks all the while. */
  told: Told[]
}

export async function start(report: Report): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  const since = performance.now()
  try {
    await makeBigState(dir)
    report({ figure: 'made', value: (performance.now() - since) / 1000, unit: 's', note: JSON.stringify(SIZES) })
    const rounds: Rounds = { cold: [], warm: [], told: [] }
    for (let round = 0; round < ROUNDS; round++) await boot(dir, rounds)
    tell(report, 'reboot', rounds.cold)
    tell(report, 'restart', rounds.warm)
    tellCaller(report, rounds.told)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** In a namespace that is new, and once more in the same. */
async function boot(dir: string, { cold, warm, told }: Rounds): Promise<void> {
  const removals: (() => unknown)[] = []
  const ns = netns({ teardown: (remove: () => unknown) => void removals.push(remove) }, 'start')
  const bpfDir = `/sys/fs/bpf/${ns.name}`
  try {
    cold.push(await started(ns, dir, bpfDir))
    warm.push(await started(ns, dir, bpfDir))
    told.push(await restarted(ns, dir, bpfDir))
  } finally {
    await endResponder(join(dir, 'responder.sock'))
    for (const remove of removals) await remove()
    rmSync(bpfDir, { recursive: true, force: true })
  }
}

const environment = (dir: string, bpfDir: string) => ({
  ...process.env,
  STRATUM_STATE_DIR: dir,
  STRATUM_RUN_DIR: dir,
  STRATUM_CONFIG: join(dir, 'none.json'),
  STRATUM_BPF_DIR: bpfDir,
})

async function started(ns: Netns, dir: string, bpfDir: string): Promise<Started> {
  const asker = createInterface({ input: outputOf(ns.spawn(process.execPath, ['-e', ASK, String(++changes)])) })
  const answered = asker[Symbol.asyncIterator]()
  const { PROFILE = '' } = process.env
  const profile = PROFILE === '' ? [] : ['--cpu-prof', `--cpu-prof-dir=${PROFILE}`]
  const env = environment(dir, bpfDir)
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

/** What somebody notices who asks 200 times a second while the agent is restarted on sockets that are kept. */
async function restarted(ns: Netns, dir: string, bpfDir: string): Promise<Told> {
  const removals: (() => unknown)[] = []
  const keeper = socketKeeper({ teardown: (remove: () => unknown) => void removals.push(remove) }, dir)
  const run = async () => {
    const { fds, names } = keeper.handOver()
    const env = {
      ...environment(dir, bpfDir),
      ...{ NOTIFY_SOCKET: keeper.path, LISTEN_FDS: String(fds.length), LISTEN_FDNAMES: names },
    }
    const command = ['LISTEN_PID=$$ exec "$0" "$@"', process.execPath, MAIN]
    const child = ns.spawn('sh', ['-c', ...command], { env, stdio: ['ignore', 'pipe', 'ignore', ...fds] })
    for await (const text of createInterface({ input: outputOf(child) })) if (text.includes('"msg":"ready"')) break
    child.stdout?.resume()
    return child
  }
  const stop = async (child: ChildProcess) => {
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  try {
    const first = await run()
    const asking = await caller(ns, TOKEN)
    await wait(1000)
    await stop(first)
    const second = await run()
    await wait(1000)
    const told = await asking.end()
    await stop(second)
    return told
  } finally {
    for (const remove of removals.reverse()) await remove()
    rmSync(join(dir, 'notify'), { force: true })
  }
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

function tellCaller(report: Report, all: readonly Told[]): void {
  const sum = (of: (one: Told) => number) => all.reduce((total, one) => total + of(one), 0)
  const note = `of ${sum(({ asked }) => asked)} calls, 200 a second, half of them on new connections`
  report({ figure: 'handover_failed', value: sum(({ failed }) => failed.length), unit: 'calls', goal: 0, note })
  report({
    figure: 'handover_wait',
    value: Math.max(...all.map(({ longest }) => longest)),
    unit: 'ms',
    goal: 2000,
    note: 'longest',
  })
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
