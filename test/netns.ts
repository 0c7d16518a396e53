/**
 * Network namespaces for tests against the real kernel: each has a unique name, loopback up, and is gone
 * (with everything inside and every process started in it) when the test that made it ends.
 * Entered by `nsenter --net=`, never by `ip netns exec`, which would hide bpffs and /sys.
 */
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { skipping } from './required.ts'

/** The part of a tap test that is needed here; any `t` fits. */
export type Scope = Pick<Test, 'teardown'>

export interface Netns {
  /** Name as `ip netns` lists it. */
  readonly name: string
  /** File to open for `setns`, or to give to `nsenter --net=`. */
  readonly path: string
  /** Runs a command inside and returns its stdout; throws with its stderr when it fails. At most 60 s. */
  run(command: string, ...args: string[]): string
  /** Starts a process inside; killed at the latest when the test ends. stdio: no input, piped output. */
  spawn(command: string, args?: readonly string[], options?: SpawnOptions): ChildProcess
  /** Ends the processes started inside, then removes the namespace; a second call does nothing. */
  remove(): Promise<void>
}

/** One end of a veth pair; `addr` are CIDRs such as `10.0.0.1/24` or `fd00::1/64` (no duplicate address detection). */
export interface VethEnd {
  ns: Netns
  name: string
  addr?: string | readonly string[]
  mac?: string
  mtu?: number
}

/** CAP_NET_ADMIN and CAP_SYS_ADMIN of linux/capability.h: what making namespaces takes. */
const NEEDED_CAPABILITIES = (1n << 12n) | (1n << 21n)

/** Counts this process's namespaces; with the pid it makes names that no parallel test file can share. */
const counter = { next: 1 }

/** Makes a namespace `stt<pid><label><n>` with loopback up. Removed by `t.teardown`. */
export function netns(t: Scope, label = 'n'): Netns {
  const name = `stt${process.pid}${label}${counter.next++}`
  ip('netns', 'add', name)
  const ns = entered(name, () => ip('netns', 'del', name))
  t.teardown(() => ns.remove())
  ip('-n', name, 'link', 'set', 'lo', 'up')
  return ns
}

/** One that is there, such as the one this process is in: it stays, what was started in it ends with the test. */
export function netnsNamed(t: Scope, name: string): Netns {
  const ns = entered(name, () => {})
  t.teardown(() => ns.remove())
  return ns
}

function entered(name: string, gone: () => void): Netns {
  const path = `/run/netns/${name}`
  const children = new Set<ChildProcess>()
  let present = true
  return {
    name,
    path,
    run: (command, ...args) => execute('nsenter', [`--net=${path}`, command, ...args]),
    spawn(command, args = [], options = {}) {
      // A test that is killed has no teardown: what it started goes with it.
      // The test runner puts itself into every Node process by NODE_OPTIONS; with its signal handlers the agent would end
      // on signals that Node ignores.
      const bare = ['env', '--unset=NODE_OPTIONS', command, ...args]
      const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'nsenter', `--net=${path}`, ...bare], {
        stdio: ['ignore', 'pipe', 'pipe'],
        ...options,
      })
      children.add(child)
      child.once('exit', () => children.delete(child))
      return child
    },
    async remove() {
      if (!present) return
      present = false
      await Promise.all([...children].map(end))
      gone()
    },
  }
}

/**
 * Joins two namespaces by a veth pair, both ends up. Removed by `t.teardown`, so that several subtests can
 * share the namespaces of their parent.
 */
export function veth(t: Scope, a: VethEnd, b: VethEnd): void {
  ip('-n', a.ns.name, 'link', 'add', a.name, 'type', 'veth', 'peer', 'name', b.name, 'netns', b.ns.name)
  for (const end of [a, b]) {
    const link = (...args: string[]) => ip('-n', end.ns.name, 'link', 'set', end.name, ...args)
    if (end.mac !== undefined) link('address', end.mac)
    if (end.mtu !== undefined) link('mtu', String(end.mtu))
    for (const addr of [end.addr ?? []].flat()) {
      const noDad = addr.includes(':') ? ['nodad'] : []
      ip('-n', end.ns.name, 'address', 'add', addr, 'dev', end.name, ...noDad)
    }
    link('up')
  }
  t.teardown(() => {
    try {
      ip('-n', a.ns.name, 'link', 'del', a.name)
    } catch (error) {
      // The test, or the removal of either namespace, may have taken the pair with it.
      if (!/Cannot find device|Cannot open network namespace/.test(String(error))) throw error
    }
  })
}

/**
 * False, with the reason printed by tap, when this process may not make namespaces. In a subtest:
 * `if (!requireRoot(t)) return`. On the top-level `t`, the whole file is skipped and the process ends here.
 */
export function requireRoot(t: Pick<Test, 'plan' | 'name'>): boolean {
  const reason = whyNot()
  if (reason === undefined) return true
  t.plan(0, skipping(reason))
  if (t.name === 'TAP') process.exit(0)
  return false
}

function whyNot(): string | undefined {
  if (process.platform !== 'linux') return 'needs Linux network namespaces'
  const capabilities = /^CapEff:\s*([0-9a-f]+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  if ((BigInt(`0x${capabilities}`) & NEEDED_CAPABILITIES) === NEEDED_CAPABILITIES) return undefined
  return 'needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN) to make network namespaces'
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

function ip(...args: string[]): string {
  return execute('ip', args)
}

/** stderr is captured, so that it stands in the thrown error instead of in the test's output. */
function execute(command: string, args: readonly string[]): string {
  return execFileSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    maxBuffer: 64 << 20,
  })
}
