/**
 * Our DNS server beside knot: dnsperf asks both in turn, in interleaved rounds of one run, and what counts is the CPU time
 * of the server's process a query. Plain, signed with the DO bit, and signed with a variant for the asker's subnet.
 * Then how long a change takes until it is answered, with 100,000 records.
 */
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DnsRecord } from '../../dataplane/responder/entries.ts'
import { newCsk } from '../../responder/dns/keys.ts'
import { quantile, type Report } from './figure.ts'

const SERVER = fileURLToPath(new URL('./dns-server.js', import.meta.url))
const ADDRESS = '127.0.0.1'
const OURS = 5300
const KNOT = 5301
const NAMES = 10_000
const MANY = 100_000
const CHANGES = 500
const ROUNDS = 5
const SECONDS = 3
/** sysconf(_SC_CLK_TCK) of every Linux. */
const TICK_MS = 10
const SUBNET = '127.0.0.0/8'
const REMEDY = '`npm run setup -- --bench` as root installs what this bench compares with'
/** Exit status of what was not run, as of test-vm. */
const MISSING = 77

const soa = (zone: string) => `ns1.${zone} hostmaster.${zone} 2024010101 3600 600 604800 300`
const general = (n: number) => `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`
const variant = (n: number) => `172.${16 + ((n >> 16) & 15)}.${(n >> 8) & 255}.${n & 255}`

/** Goals are the share of knot's queries a CPU second. */
const LANES = [
  { name: 'plain', zone: 'plain.test.', signed: false, split: false, goal: 0.7 },
  { name: 'signed', zone: 'signed.test.', signed: true, split: false, goal: 0.7 },
  { name: 'split signed', zone: 'split.test.', signed: true, split: true, goal: 0.7 },
] as const
type Lane = (typeof LANES)[number]

/** What the server is compared with comes from packages that neither running nor the tests need. */
function whatIsMissing(): string[] {
  const path = (process.env.PATH ?? '').split(':').concat('/usr/sbin')
  return ['knotd', 'knotc', 'dnsperf', 'dig'].filter((tool) => !path.some((dir) => existsSync(join(dir, tool))))
}

export async function dns(report: Report): Promise<void> {
  const missing = whatIsMissing()
  if (missing.length > 0) {
    process.stderr.write(`bench dns: not run, missing: ${missing.join(' ')}; ${REMEDY}\n`)
    process.exitCode = MISSING
    return
  }
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-dns-'))
  const children: ChildProcess[] = []
  try {
    const ours = await startOurs(children)
    const knot = await startKnot(dir, children)
    for (const lane of LANES) await measure(report, dir, lane, ours, knot)
    await visible(report, ours)
    report({ figure: 'memory, 140,000 records', value: memory(ours), unit: 'MB' })
  } finally {
    for (const child of children) child.kill('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
  }
}

async function startOurs(children: ChildProcess[]): Promise<ChildProcess> {
  const child = fork(SERVER, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  children.push(child)
  await tell(child, { listen: { kind: 'dns_listener', key: 'l', address: ADDRESS, port: OURS } })
  for (const { zone, signed, split } of LANES) {
    const csk = signed ? { csk: newCsk() } : {}
    await tell(child, {
      apply: [{ after: { kind: 'dns_zone', key: zone, name: zone, soa: soa(zone), soaTtl: 3600, ...csk } }],
    })
    for (let n = 0; n < NAMES; n++) {
      const apply = [{ after: record(zone, `n${n}.${zone}`, general(n)) }]
      if (split) apply.push({ after: record(zone, `n${n}.${zone}`, variant(n), SUBNET) })
      await tell(child, { apply })
    }
  }
  return child
}

function record(zone: string, name: string, value: string, subnet = ''): DnsRecord {
  return { kind: 'dns_record', key: `${name}/${subnet}`, zone, name, type: 'A', ttl: 300, value, subnet }
}

async function tell(child: ChildProcess, message: object): Promise<void> {
  child.send(message)
  await once(child, 'message')
}

async function startKnot(dir: string, children: ChildProcess[]): Promise<ChildProcess> {
  for (const sub of ['run', 'db']) mkdirSync(join(dir, sub))
  for (const { zone, split } of LANES) {
    const lines = [`@ 3600 SOA ${soa(zone)}`, `@ 3600 NS ns1.${zone}`]
    for (let n = 0; n < NAMES; n++) lines.push(`n${n} 300 A ${general(n)}`)
    writeFileSync(join(dir, `${zone}zone`), `$ORIGIN ${zone}\n${lines.join('\n')}\n`)
    if (!split) continue
    const names = Array.from({ length: NAMES }, (_, n) => `n${n}.${zone}:\n  - net: ${SUBNET}\n    A: ${variant(n)}`)
    writeFileSync(join(dir, 'geo.conf'), `${names.join('\n')}\n`)
  }
  const zones = LANES.map(({ zone, signed, split }) =>
    [
      `  - domain: ${zone}`,
      `    file: ${zone}zone`,
      ...(signed ? ['    dnssec-signing: on', '    dnssec-policy: csk'] : []),
      ...(split ? ['    module: mod-geoip/split'] : []),
    ].join('\n'),
  )
  const config = `server:
  rundir: ${dir}/run
  listen: ${ADDRESS}@${KNOT}
  udp-workers: 1
database:
  storage: ${dir}/db
policy:
  - id: csk
    single-type-signing: on
    algorithm: ecdsap256sha256
mod-geoip:
  - id: split
    config-file: ${dir}/geo.conf
    ttl: 300
    mode: subnet
template:
  - id: default
    storage: ${dir}
    zonefile-sync: -1
    journal-content: none
zone:
${zones.join('\n')}
`
  writeFileSync(join(dir, 'knot.conf'), config)
  const child = spawn('knotd', ['-c', join(dir, 'knot.conf')], { stdio: ['ignore', 'ignore', 'inherit'] })
  children.push(child)
  const ended = once(child, 'exit').then(() => {
    throw new Error(`knotd ended; where it lacks its module geoip: ${REMEDY}`)
  })
  // In the end it is killed.
  ended.catch(() => {})
  // The module finds the keys of its zone only after the first signing.
  await Promise.race([answers(KNOT, 'n1.signed.test'), ended])
  const control = (...args: string[]) =>
    execFileSync('knotc', ['-s', `${dir}/run/knot.sock`, ...args], { stdio: 'ignore', timeout: 60_000 })
  control('-b', 'zone-status', 'split.test.')
  control('reload')
  await answers(KNOT, 'n1.split.test', variant(1))
  return child
}

/** Until a server answers, with `value` if that is given. */
async function answers(port: number, name: string, value?: string): Promise<void> {
  const until = Date.now() + 20_000
  for (;;) {
    try {
      const text = execFileSync('dig', ['+short', '+tries=1', '+time=1', `@${ADDRESS}`, '-p', String(port), name], {
        encoding: 'utf8',
      }).trim()
      if (value === undefined ? text !== '' : text === value) return
    } catch {
      // Not yet.
    }
    if (Date.now() > until) throw new Error(`no answer for ${name} on port ${port}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function measure(report: Report, dir: string, lane: Lane, ours: ChildProcess, knot: ChildProcess) {
  const queries = join(dir, 'queries')
  const lines = Array.from({ length: NAMES }, (_, n) => `n${(n * 7919) % NAMES}.${lane.zone} A`)
  writeFileSync(queries, `${lines.join('\n')}\n`)
  // Both have signed, and ours has been compiled, before it counts.
  await ask(OURS, queries, lane, 2)
  await ask(KNOT, queries, lane, 1)
  const cost = { ours: [] as number[], knot: [] as number[] }
  for (let round = 0; round < ROUNDS; round++) {
    cost.ours.push(await costOf(ours, OURS, queries, lane))
    cost.knot.push(await costOf(knot, KNOT, queries, lane))
  }
  const median = (values: number[]) => quantile(values, 0.5)
  const ratios = cost.ours.map((it, n) => (cost.knot[n] ?? Number.NaN) / it)
  report({ figure: `${lane.name}, ours`, value: median(cost.ours), unit: 'us/query', note: 'CPU' })
  report({ figure: `${lane.name}, knot`, value: median(cost.knot), unit: 'us/query', note: 'CPU' })
  const note = `queries a CPU second beside knot; rounds ${ratios.map((it) => it.toFixed(2)).join(' ')}`
  report({ figure: `${lane.name}, ratio`, value: median(ratios), unit: '', goal: lane.goal, better: 'higher', note })
}

/** Microseconds of CPU that a query takes. */
async function costOf(child: ChildProcess, port: number, queries: string, lane: Lane): Promise<number> {
  const before = cpuMs(child)
  const completed = await ask(port, queries, lane, SECONDS)
  return ((cpuMs(child) - before) * 1000) / completed
}

/** Not awaited by execFileSync: the channel to our server wants its turns. */
async function ask(port: number, queries: string, lane: Lane, seconds: number): Promise<number> {
  const args = [
    '-s',
    ADDRESS,
    '-p',
    String(port),
    '-d',
    queries,
    '-l',
    String(seconds),
    '-q',
    '200',
    '-T',
    '1',
    '-c',
    '4',
  ]
  const child = spawn('dnsperf', lane.signed ? [...args, '-D'] : args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  await once(child, 'close')
  const [, completed] = /Queries completed:\s+(\d+)/.exec(text) ?? []
  const [, good] = /NOERROR (\d+)/.exec(text) ?? []
  if (completed === undefined || good !== completed) throw new Error(`dnsperf was answered badly:\n${text}`)
  return Number(completed)
}

/** User and system time of all its threads. */
function cpuMs({ pid }: ChildProcess): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

function memory({ pid }: ChildProcess): number {
  const [, kb] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kb) / 1024
}

/** From telling the process of a new record to the answer that has it. */
async function visible(report: Report, ours: ChildProcess): Promise<void> {
  const zone = 'plain.test.'
  const step = 1000
  for (let n = 0; n < MANY; n += step) {
    await tell(ours, {
      apply: Array.from({ length: step }, (_, i) => ({ after: record(zone, `m${n + i}.${zone}`, general(n + i)) })),
    })
  }
  const socket = createSocket('udp4')
  await new Promise<void>((resolve) => socket.connect(OURS, ADDRESS, resolve))
  const took: number[] = []
  for (let n = 0; n < CHANGES; n++) {
    const name = `c${n}.${zone}`
    const start = performance.now()
    await tell(ours, { apply: [{ after: record(zone, name, '192.0.2.7') }] })
    socket.send(question(n, name))
    const [answer] = (await once(socket, 'message')) as [Buffer]
    took.push(performance.now() - start)
    if (answer.readUInt16BE(6) !== 1) throw new Error(`${name} was not answered`)
  }
  socket.close()
  const note = `of ${CHANGES} changes with ${MANY} records`
  report({ figure: 'change to answer, p50', value: quantile(took, 0.5), unit: 'ms', note })
  report({ figure: 'change to answer, p99', value: quantile(took, 0.99), unit: 'ms', goal: 5, note })
}

function question(id: number, name: string): Buffer {
  const header = Buffer.from([id >> 8, id & 255, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
  const labels = name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)]))
  return Buffer.concat([header, ...labels, Buffer.from([0, 1, 0, 1])])
}
