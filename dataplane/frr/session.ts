/**
 * FRR's daemons as processes of ours: zebra (routes to the kernel), bfdd (BFD) and bgpd, with sockets, pid files and directory of their own.
 * They detach, so they outlive the agent; the next one finds them by their sockets. There can be no other zebra in the same network
 * namespace, such as that of Debian's frr.service: each deletes routes that it has not installed itself.
 */
import { execFile, spawn } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { whyNotUsable } from './trial.ts'
import { openVty, type Vty } from './vty.ts'

export const DAEMONS = ['zebra', 'bfdd', 'bgpd'] as const
export type Daemon = (typeof DAEMONS)[number]

export interface FrrPlaces {
  /** Where Debian's package has the programs. */
  binDir: string
  /**
   * Directory for sockets and pid files, which the daemons own. It is below one of root's that others may pass through; what root
   * writes stands there, beside it: in a directory of theirs the daemons could lead root to any file.
   */
  runDir: string
}

/** What a healthy one takes to be ready is 0.1 s. */
const START_MS = 15_000
/** Longest time that a daemon lets an answer wait; listing a million routes to somebody else keeps bgpd for seconds. */
const PATIENCE_MS = 60_000
const STOP_MS = 5000
/** How much of what a daemon says at its start is kept, and how long one that has failed is listened to. */
const MAX_SAID = 4096
const LAST_WORDS_MS = 200
/** Routes of a zebra that was killed stay so many seconds until its successor has heard bgpd. */
const SWEEP_S = 180

/** Not configuration, which the store alone has, but how the daemons work. */
const STATIC: Readonly<Record<Daemon, string>> = {
  zebra: 'no zebra nexthop kernel enable\n',
  bfdd: '',
  // What a changed map means is said to bgpd; left to itself it would look five seconds later.
  bgpd: 'bgp route-map delay-timer 0\n',
}

/** Why FRR cannot be used here; undefined when it can. */
export async function whyNoFrr({ binDir, runDir }: FrrPlaces): Promise<string | undefined> {
  for (const name of DAEMONS) {
    try {
      accessSync(`${binDir}/${name}`, constants.X_OK)
    } catch {
      return `${binDir}/${name} is missing: install Debian's package frr`
    }
  }
  const ids = user()
  if (ids === undefined) return "the user frr is missing: install Debian's package frr"
  const unusable = await Promise.all(DAEMONS.map((name) => whyNotUsable(binDir, name, helpOf)))
  const closed = await firstClosed(dirname(dirname(runDir)), ids)
  return (
    unusable.find((why) => why !== undefined) ??
    (closed &&
      `the user frr may not pass ${closed}, below which its sockets are (${runDir}): chmod o+x ${closed}, or have the run directory elsewhere (STRATUM_RUN_DIR)`)
  )
}

/** The first of a directory and those above it that a user may not pass; undefined when all are open. The kernel is asked in that user's name. */
async function firstClosed(dir: string, ids: { uid: number; gid: number }): Promise<string | undefined> {
  const above = dir === dirname(dir) ? undefined : await firstClosed(dirname(dir), ids)
  if (above !== undefined) return above
  const open = promisify(execFile)('/usr/bin/test', ['-x', dir], { cwd: '/', ...ids, timeout: START_MS })
  return open.then(
    () => undefined,
    () => dir,
  )
}

/** The id of user and group `frr`, to which the daemons change. */
function user(): { uid: number; gid: number } | undefined {
  const ids = (file: string) => Number(/^frr:[^:]*:(\d+):/m.exec(readFileSync(file, 'utf8'))?.[1])
  const [uid, gid] = [ids('/etc/passwd'), ids('/etc/group')]
  return Number.isInteger(uid) && Number.isInteger(gid) ? { uid, gid } : undefined
}

/** Process id of a daemon of ours; undefined when it does not run. */
export function pidOf({ runDir }: FrrPlaces, name: Daemon): number | undefined {
  try {
    const pid = Number(readFileSync(`${runDir}/${name}.pid`, 'utf8'))
    // The number may be another's by now.
    const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return line[0]?.endsWith(`/${name}`) && line.includes(runDir) ? pid : undefined
  } catch {
    return undefined
  }
}

/**
 * Process id of a zebra in this network namespace that is not ours. At its start, and from then on for routes that it does not know,
 * a zebra deletes what another has installed.
 */
export async function otherZebra({ runDir }: FrrPlaces): Promise<number | undefined> {
  const here = await readlink('/proc/self/ns/net')
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    try {
      const line = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
      if (!line[0]?.endsWith('/zebra') || line.includes(runDir)) continue
      if ((await readlink(`/proc/${pid}/ns/net`)) === here) return Number(pid)
    } catch {
      // It has ended meanwhile.
    }
  }
  return undefined
}

/** Connects to one that runs; undefined when none does. */
export async function findDaemon(places: FrrPlaces, name: Daemon, onLost?: () => void): Promise<Vty | undefined> {
  try {
    return await openVty(`${places.runDir}/${name}.vty`, PATIENCE_MS, onLost)
  } catch {
    return undefined
  }
}

/** What a daemon prints of its options, which takes it some milliseconds. Rejects with what it said instead. */
async function helpOf(binDir: string, name: Daemon): Promise<string> {
  try {
    return (await promisify(execFile)(`${binDir}/${name}`, ['--help'], { timeout: START_MS, cwd: '/' })).stdout
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string }
    throw new Error(stderr.trim().split('\n').at(-1) || message)
  }
}

/** FRR 8's bfdd has a control socket of its own to be placed; FRR 10's refuses the option. */
async function ownOptions({ binDir, runDir }: FrrPlaces, name: Daemon): Promise<readonly string[]> {
  if (name === 'zebra') return ['-r', '-K', String(SWEEP_S)]
  if (name !== 'bfdd') return []
  const known = await helpOf(binDir, name)
  return known.includes('--bfdctl') ? ['--bfdctl', `${runDir}/bfdd.sock`] : []
}

/** Resolves when the process that was started has left a daemon behind. */
function launch({ binDir, runDir }: FrrPlaces, name: Daemon, options: readonly string[]): Promise<void> {
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }
  const child = spawn(`${binDir}/${name}`, options, {
    ...{ cwd: '/', env, timeout: START_MS, stdio: ['ignore', 'ignore', 'pipe'] },
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-MAX_SAID)
  })
  if (child.pid !== undefined) write(launcher(runDir, name), String(child.pid), 0o600)
  return new Promise((resolve, reject) => {
    const fail = (why: string) =>
      reject(new Error(`${name} cannot be started: ${said.trim().split('\n').at(-1) || why}`))
    child.once('error', (error) => fail(error.message))
    child.once('exit', (code, signal) => {
      // Its end is not waited for: FRR 10's daemons keep it open for good, FRR 8's do not.
      if (code === 0) {
        child.stderr.destroy()
        return resolve()
      }
      child.once('close', () => fail(`it ended by ${signal ?? `exit code ${code}`}`))
      setTimeout(() => child.stderr.destroy(), LAST_WORDS_MS)
    })
  })
}

/** Starts a daemon that outlives this process, and connects. Rejects with a sentence for the operator. */
export async function startDaemon(places: FrrPlaces, name: Daemon, onLost?: () => void): Promise<Vty> {
  const { runDir } = places
  const other = name === 'zebra' ? await otherZebra(places) : undefined
  if (other !== undefined)
    throw new Error(
      `another zebra (pid ${other}) runs here and each would delete the other's routes: systemctl disable --now frr`,
    )
  // One that does not answer would keep the sockets from its successor.
  await endDaemon(places, name)
  prepare(places, name)
  const common = ['-d', '-u', 'frr', '-g', 'frr', '-P', '0', '--log', 'syslog', '--log-level', 'notifications']
  const sockets = ['--vty_socket', runDir, '-z', `${runDir}/zserv.api`, '-i', `${runDir}/${name}.pid`]
  await launch(places, name, [...common, ...sockets, '-f', config(runDir, name), ...(await ownOptions(places, name))])
  for (const end = performance.now() + START_MS; performance.now() < end; await delay(20)) {
    const vty = await findDaemon(places, name, onLost)
    if (vty) return vty
  }
  throw new Error(`${name} does not answer ${START_MS / 1000} s after its start`)
}

/** Resolves when it does not run any more. Rejects when it cannot be ended. */
export async function endDaemon(places: FrrPlaces, name: Daemon): Promise<void> {
  const pid = pidOf(places, name)
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    if (pid === undefined || pidOf(places, name) !== pid) break
    try {
      process.kill(pid, signal)
    } catch {
      break
    }
    for (const end = performance.now() + STOP_MS; pidOf(places, name) === pid && performance.now() < end; )
      await delay(20)
  }
  if (pid !== undefined && pidOf(places, name) === pid)
    throw new Error(`${name} (pid ${pid}) does not end even by SIGKILL: look at /proc/${pid}/stack`)
  await forgetTrace(places, name)
}

/** FRR keeps a directory for crash logs of each process, called after the one that we started; it stays after a kill. */
async function forgetTrace({ runDir }: FrrPlaces, name: Daemon): Promise<void> {
  try {
    const launched = Number(readFileSync(launcher(runDir, name), 'utf8'))
    if (launched > 1) await removeTheirs([`/var/tmp/frr/${name}.${launched}`])
  } catch {
    // There was no earlier one.
  }
}

/** Removes what is frr's too: rm goes down by open directories, and cannot be led elsewhere meanwhile. */
export async function removeTheirs(paths: readonly string[]): Promise<void> {
  if (paths.length > 0) await promisify(execFile)('rm', ['-rf', '--', ...paths])
}

const launcher = (runDir: string, name: Daemon): string => `${runDir}.${name}.launcher`
const config = (runDir: string, name: Daemon): string => `${runDir}.${name}.conf`

/** A file of root's, made anew: whatever stood there is not written to. */
function write(path: string, text: string, mode: number): void {
  rmSync(path, { force: true })
  const fd = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  try {
    writeFileSync(fd, text)
    fchmodSync(fd, mode)
  } finally {
    closeSync(fd)
  }
}

/** The directory is the daemons' and nobody else's; what leads to it may be passed through, not read. */
function prepare({ runDir }: FrrPlaces, name: Daemon): void {
  const ids = user()
  if (ids === undefined) throw new Error('the user frr is missing')
  const parent = `${runDir}/..`
  mkdirSync(runDir, { recursive: true, mode: 0o700 })
  chownSync(runDir, ids.uid, ids.gid)
  chmodSync(runDir, 0o700)
  const { mode } = statSync(parent)
  if ((mode & 0o001) === 0) chmodSync(parent, (mode & 0o777) | 0o001)
  write(config(runDir, name), STATIC[name], 0o644)
  rmSync(`${runDir}/${name}.vty`, { force: true })
}
