/**
 * The etcd of this node, a child process that ends with the agent (`setpriv --pdeathsig`). It gets its settings by the command
 * line alone, whose every word is made here, and no capability: it needs none, and root's files stay readable to it.
 */
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

/** Where Debian's package has it. */
export const ETCD = '/usr/bin/etcd'

/** It takes settings from variables named ETCD_…. */
const ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** What a node may be called: a word of the command line, a DNS name in a certificate, and a part of keys. */
export const NODE_ID = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/

export interface EtcdSettings {
  program?: string
  node: string
  cluster: string
  /** Of the other members' connections; clients are served on 127.0.0.1 alone. */
  address: string
  peerPort: number
  clientPort: number
  dataDir: string
  /** Holds `ca.pem`, `cert.pem` and `key.pem`, which etcd reads again for every connection. */
  certificateDir: string
  /** `<node>=<peer URL>,…` of all members. */
  initialCluster: string
  /** It makes the cluster, or enters one that is there. */
  state: 'new' | 'existing'
  /** Forgets all other members: for a node that is left alone for good. */
  alone?: boolean
  /** Otherwise QUOTA_BYTES. */
  quota?: number
}

export interface EtcdExit {
  /** null after a signal. 0 without having been asked: this member was removed. */
  code: number | null
  /** The last line that it logged. */
  said: string
}

export interface EtcdChild {
  readonly pid: number
  readonly exited: Promise<EtcdExit>
  /** Ends it in order (SIGTERM, by which a leader hands over), by force when that takes too long. */
  stop(): Promise<EtcdExit>
}

const STOP_MS = 10_000
/** How long one that a former agent has left behind may take to end in order. */
const LEFT_MS = 5000

/** Programs that have told their version; whoever does is not asked again. */
const running = new Set<string>()
/** It takes some 10 ms. */
const VERSION_MS = 5000

/** Why etcd cannot be used here; undefined when it can. */
export function whyNoEtcd(program = ETCD): string | undefined {
  try {
    accessSync(program, constants.X_OK)
  } catch {
    return `${program} is missing: install Debian's package etcd-server (mask etcd.service first)`
  }
  if (running.has(program)) return undefined
  const { status, signal, stderr, error } = spawnSync(program, ['--version'], {
    ...{ cwd: '/', env: ENVIRONMENT, timeout: VERSION_MS, encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] },
  })
  if (status === 0) {
    running.add(program)
    return undefined
  }
  const said = stderr?.trim().split('\n').at(-1) || error?.message || `it ended by ${signal ?? `exit code ${status}`}`
  return `${program} does not run: ${said}: apt-get install --reinstall etcd-server`
}

export const peerUrl = (address: string, port: number): string => `https://${hostOf(address)}:${port}`
const hostOf = (address: string) => (isIPv6(address) ? `[${address}]` : address)

/** The command line of etcd 3.4. */
export function etcdArguments(settings: EtcdSettings): string[] {
  const { node, cluster, address, peerPort, clientPort, dataDir, certificateDir } = settings
  const [peer, client] = [peerUrl(address, peerPort), `https://127.0.0.1:${clientPort}`]
  const files = (prefix: string) => [
    `--${prefix}trusted-ca-file=${certificateDir}/ca.pem`,
    `--${prefix}cert-file=${certificateDir}/cert.pem`,
    `--${prefix}key-file=${certificateDir}/key.pem`,
    `--${prefix}client-cert-auth`,
  ]
  return [
    `--name=${node}`,
    `--data-dir=${dataDir}`,
    ...[`--listen-client-urls=${client}`, `--advertise-client-urls=${client}`],
    ...[`--listen-peer-urls=${peer}`, `--initial-advertise-peer-urls=${peer}`],
    `--initial-cluster=${settings.initialCluster}`,
    `--initial-cluster-state=${settings.state}`,
    `--initial-cluster-token=${cluster}`,
    ...files(''),
    ...files('peer-'),
    ...['--pre-vote', '--heartbeat-interval=100', '--election-timeout=1000'],
    ...['--auto-compaction-mode=revision', '--auto-compaction-retention=10000'],
    ...[`--quota-backend-bytes=${settings.quota ?? QUOTA_BYTES}`, '--snapshot-count=10000'],
    ...[`--max-txn-ops=${MAX_TXN_OPS}`, `--max-request-bytes=${MAX_REQUEST_BYTES}`],
    ...['--logger=zap', '--log-outputs=stderr', '--log-level=warn'],
    ...(settings.alone ? ['--force-new-cluster'] : []),
  ]
}

/** Size of its database at which it takes no change any more. */
export const QUOTA_BYTES = 268_435_456
/** Of one transaction. */
export const MAX_TXN_OPS = 20_000
export const MAX_REQUEST_BYTES = 8_388_608

/** Waits for one that a killed agent has left behind on the same data, then starts it. `log` gets its warnings. */
export async function startEtcd(settings: EtcdSettings, log: (line: string) => void): Promise<EtcdChild> {
  const { node, program = ETCD } = settings
  if (!NODE_ID.test(node)) throw new TypeError(`not a node id: ${node}`)
  await endLeft(settings.dataDir)
  const bare = ['--pdeathsig', 'TERM', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all', '--']
  const child = spawn('setpriv', [...bare, program, ...etcdArguments(settings)], {
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: '/',
    env: ENVIRONMENT,
  })
  let [said, ended] = ['', false]
  createInterface({ input: child.stderr }).on('line', (line) => {
    said = line.slice(0, 1000)
    log(said)
  })
  const exited = new Promise<EtcdExit>((resolve) => {
    const over = (code: number | null) => {
      ended = true
      resolve({ code, said })
    }
    child.once('error', (error) => {
      said = error.message
      over(1)
    })
    child.once('close', over)
  })
  return {
    pid: child.pid ?? 0,
    exited,
    async stop() {
      const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      // A stopped process gets its signals only when it goes on.
      if (!ended) for (const signal of ['SIGTERM', 'SIGCONT'] as const) child.kill(signal)
      return exited.finally(() => clearTimeout(force))
    },
  }
}

/** Ends what a killed agent has left behind: two on the same data would wait for each other's locks and ports. */
export async function endLeft(dataDir: string): Promise<void> {
  for (const pid of await runningOn(dataDir)) {
    for (const end = performance.now() + LEFT_MS; await runsOn(pid, dataDir); await delay(20)) {
      if (performance.now() > end) signal(pid, 'SIGKILL')
      else signal(pid, 'SIGTERM')
    }
  }
}

async function runningOn(dataDir: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    if (/^\d+$/.test(name) && (await runsOn(Number(name), dataDir))) found.push(Number(name))
  }
  return found
}

/** A process of a container may name the same path and mean another place. etcd's own data may be gone; what they are in is not. */
async function runsOn(pid: number, dataDir: string): Promise<boolean> {
  if (pid === process.pid) return false
  try {
    if (!(await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').includes(`--data-dir=${dataDir}`)) return false
    const [here, there] = await Promise.all(['', `/proc/${pid}/root`].map((root) => stat(root + dirname(dataDir))))
    return here?.dev === there?.dev && here?.ino === there?.ino
  } catch {
    return false
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended meanwhile.
  }
}
