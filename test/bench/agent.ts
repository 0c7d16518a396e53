/** The real agent for a bench, in the network namespace of the bench, and what it costs. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { hashSecret } from '../../core/gates/bearer.ts'
import { openOverrides } from '../../core/state/overrides.ts'

export const TOKEN = 'nt_bench-0123456789abcdefghijklmnopqrstuvwxyz'
/** USER_HZ of Linux on all architectures Node runs on. */
const TICKS_PER_SECOND = 100

export interface BenchAgent {
  port: number
  /** Holds cert.pem and key.pem. */
  tlsDir: string
  /** CPU seconds of the agent and of its helper processes so far. */
  cpu(): { agent: number; helpers: number }
  /** Resident set in MB. */
  rss(): { agent: number; helpers: number }
  stop(): Promise<void>
}

export async function startBenchAgent(): Promise<BenchAgent> {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  const bpfDir = `/sys/fs/bpf/stb${process.pid}`
  openOverrides(join(dir, 'overrides.json')).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
    content.rest = true
    Object.assign(content.config, { api_rate_limit: '10000000', api_rate_burst: '1000000', api_port: '0' })
  })
  const env = {
    ...process.env,
    STRATUM_STATE_DIR: dir,
    STRATUM_RUN_DIR: dir,
    STRATUM_CONFIG: join(dir, 'none.json'),
    STRATUM_BPF_DIR: bpfDir,
    UV_THREADPOOL_SIZE: '16',
  }
  const main = new URL('../../core/main.js', import.meta.url).pathname
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await ready(child)
  await evaluate(join(dir, 'control.sock'))
  const pid = child.pid ?? 0
  return {
    port,
    tlsDir: join(dir, 'tls'),
    cpu: () => ({ agent: cpuOf(pid), helpers: helpersOf(pid).reduce((sum, helper) => sum + cpuOf(helper), 0) }),
    rss: () => ({ agent: rssOf(pid), helpers: helpersOf(pid).reduce((sum, helper) => sum + rssOf(helper), 0) }),
    async stop() {
      child.kill('SIGTERM')
      await once(child, 'exit')
      for (const path of [dir, bpfDir]) rmSync(path, { recursive: true, force: true })
    },
  }
}

async function ready(child: ChildProcess): Promise<number> {
  if (child.stdout === null) throw new Error('the agent has no stdout')
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { msg: string; services?: { name: string; listening?: string; off?: string }[] }
    if (entry.msg !== 'ready') continue
    child.stdout.resume()
    const rest = entry.services?.find(({ name }) => name === 'rest')
    if (rest?.listening === undefined) throw new Error(`REST is off: ${rest?.off}`)
    return Number(/:(\d+)$/.exec(rest.listening)?.[1])
  }
  throw new Error('the agent ended before it was ready')
}

function evaluate(socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, method: 'POST', path: '/control/v1/license/evaluate' }, (answer) => {
      answer.resume()
      answer.on('end', resolve)
    })
    call.on('error', reject)
    call.end()
  })
}

/** CPU seconds of a process so far, user and system. */
export function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** Resident set of a process, MB. */
export function rssOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
}

function helpersOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
}
