/**
 * Debian 13's userland on this machine's kernel: a root that debootstrap fetches once into .cache/userland, and commands in it
 * that have namespaces of their own and see this checkout; what they write is gone afterwards.
 */
import { type ExecFileSyncOptions, execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetching, mirrors, sources } from './mirror.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const CACHE = join(ROOT, '.cache', 'userland')
const SUITE = 'trixie'
/** As /etc/os-release numbers it. */
export const RELEASE = '13'
/** What tests use beside scripts/packages.txt, since every machine they ran on so far had it. */
const MORE = ['nodejs', 'ca-certificates', 'openssl', 'git', 'xz-utils']

/** `$1`: the fresh root; the others: packages. Its own service manager and services are never started. */
const INSTALL = `set -e
root=$1; shift
mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
printf '#!/bin/sh\\nexit 101\\n' >"$root/usr/sbin/policy-rc.d"; chmod 755 "$root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
chroot "$root" apt-get -qq update
chroot "$root" apt-get -qq -y install --no-install-recommends "$@"
chroot "$root" apt-get clean`

/**
 * `$1`: the root; `$2`: an empty folder; `$3`: this checkout; `$4`: a Node that takes the place of Debian's, or nothing; then the
 * command. pivot_root, because entering a mount namespace leads out of a chroot.
 */
const ENTER = `set -e
root=$1; dir=$2; checkout=$3; node=$4; shift 4
mount -t tmpfs -o size=6g userland "$dir"
cd "$dir"; mkdir upper work root changed changing
mount -t overlay -o "lowerdir=$root,upperdir=$dir/upper,workdir=$dir/work" userland root
mount -t proc proc root/proc
mount -t sysfs sys root/sys
mount -t bpf bpf root/sys/fs/bpf
mount --rbind /sys/fs/cgroup root/sys/fs/cgroup
mount --rbind /dev root/dev
mount -t tmpfs run root/run
mkdir -p root/run/lock root/run/netns "root$checkout" root/.former
mount -t overlay -o "lowerdir=$checkout,upperdir=$dir/changed,workdir=$dir/changing" checkout "root$checkout"
if [ -n "$node" ]; then rm -f root/usr/bin/node; cp "$node" root/usr/bin/node; fi
ip link set lo up
cd root; pivot_root . .former; umount -l /.former
cd "$checkout"
# Not exec: this shell is the first process, which takes in what others leave behind.
"$@" && exit 0 || exit $?`

/** Packages that running, building and testing take. */
const packages = (): string[] =>
  readFileSync(join(ROOT, 'scripts/packages.txt'), 'utf8')
    .split('\n')
    .map((line) => line.split(/\s+/))
    .flatMap(([name = '', use = '']) => (['run', 'build', 'test'].includes(use) ? [name] : []))

/** Why there can be no such userland here; undefined when there can. */
export function whyNone(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root'
  const path = (process.env.PATH ?? '').split(':').concat('/usr/sbin')
  if (existsSync(join(CACHE, SUITE)) || path.some((dir) => existsSync(join(dir, 'debootstrap')))) return undefined
  return 'needs debootstrap: apt-get install debootstrap'
}

/** Folder of the root; fetched unless it is there, which takes some minutes, with the packages that are wanted now. */
export function userland(): string {
  const kept = join(CACHE, SUITE)
  const log: ExecFileSyncOptions = { stdio: ['ignore', 2, 2] }
  if (!existsSync(kept)) fetchBase(kept, log)
  const missing = missingIn(kept)
  if (missing.length > 0) {
    process.stderr.write(`installing in ${kept}, which may take some minutes: ${missing.join(' ')}\n`)
    const own = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child']
    execFileSync('unshare', [...own, 'sh', '-c', INSTALL, 'install', kept, ...missing], log)
  }
  return kept
}

function fetchBase(kept: string, log: ExecFileSyncOptions): void {
  const fresh = `${kept}.${process.pid}`
  mkdirSync(CACHE, { recursive: true })
  try {
    process.stderr.write(`fetching ${SUITE}\n`)
    const options = ['--variant=minbase', '--include=ca-certificates']
    execFileSync('debootstrap', [...options, SUITE, fresh, mirrors().archive], log)
    writeFileSync(join(fresh, 'etc/apt/sources.list'), sources([SUITE, `${SUITE}-security`]))
    writeFileSync(join(fresh, 'etc/apt/apt.conf.d/99fetching'), fetching())
    writeFileSync(join(fresh, 'etc/resolv.conf'), readFileSync('/etc/resolv.conf'))
    renameSync(fresh, kept)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/** Of the packages that are wanted, those that the root has not: all after it was fetched, else what the list has got since. */
function missingIn(kept: string): string[] {
  const wanted = [...MORE, ...packages()]
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's own placeholders
  const query = ['--admindir', join(kept, 'var/lib/dpkg'), '-W', '-f', '${Package} ${db:Status-Status}\n', ...wanted]
  const { stdout } = spawnSync('dpkg-query', query, { encoding: 'utf8' })
  const installed = new Set(stdout.split('\n'))
  return wanted.filter((name) => !installed.has(`${name} installed`))
}

/** Runs `command` in the checkout under that root. `node`: program that takes the place of Debian's own Node. */
export function inside(
  root: string,
  node: string | undefined,
  command: readonly string[],
): { status: number; out: string } {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-userland-'))
  const own = ['--mount', '--propagation', 'private', '--net', '--uts', '--ipc', '--pid', '--fork', '--kill-child']
  const env = {
    HOME: '/root',
    TERM: 'dumb',
    LC_ALL: 'C.UTF-8',
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    CI: 'true',
    TAP_TIMEOUT: process.env.TAP_TIMEOUT ?? '600',
  }
  try {
    const args = [...own, 'sh', '-c', ENTER, 'enter', root, dir, ROOT, node ?? '', ...command]
    const { status, stdout, stderr } = spawnSync('unshare', args, { env, encoding: 'utf8', maxBuffer: 256 << 20 })
    return { status: status ?? 1, out: `${stdout}\n${stderr}` }
  } finally {
    // The mounts have gone with their namespace.
    rmdirSync(dir)
  }
}
