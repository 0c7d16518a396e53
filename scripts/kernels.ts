/**
 * Debian's kernels for the machines of scripts/test-vm.ts. They are fetched by an apt root of its own and unpacked into
 * .cache/test-vm, never installed, so this machine's boot is not touched.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { aptRoot } from './mirror.ts'

const CACHE = join(import.meta.dirname, '..', '..', '.cache', 'test-vm')
/** That of Debian 12, which `npm run test:vm` runs. */
export const OLDEST = join(CACHE, 'kernel')

export interface Kernel {
  image: string
  /** Folder that holds lib/modules. */
  base: string
  version: string
  arch: Arch
}

export interface KernelLine {
  name: string
  suites: readonly string[]
  /** Versions of the line; the newest that can be had is taken. */
  versions: RegExp
  arch: Arch
}

/** Architectures, as Debian calls them. */
export type Arch = 'amd64' | 'arm64'

export const LINES: readonly KernelLine[] = [
  { name: '6.1', suites: ['bookworm', 'bookworm-security'], versions: /^6\.1\./, arch: 'amd64' },
  { name: '6.12', suites: ['trixie', 'trixie-security'], versions: /^6\.12\./, arch: 'amd64' },
  { name: '6.18', suites: ['trixie-backports'], versions: /^6\.18\./, arch: 'amd64' },
  { name: 'newest', suites: ['trixie-backports'], versions: /^/, arch: 'amd64' },
  { name: '6.12-arm64', suites: ['trixie', 'trixie-security'], versions: /^6\.12\./, arch: 'arm64' },
]

const say = (command: string, args: readonly string[], cwd: string, env = process.env): string =>
  execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

/** Of the kernel that is unpacked in `base`. @throws Error when there is none */
export function kernelIn(base: string): Kernel {
  const [version] = readdirSync(join(base, 'lib/modules'))
  if (version === undefined) throw new Error(`${base} has no kernel: remove it, then run npm run setup -- --test`)
  const arch = version.endsWith('-arm64') ? 'arm64' : 'amd64'
  return { base, version, arch, image: join(base, 'boot', `vmlinuz-${version}`) }
}

/** Folder of that line's newest kernel, fetched unless one of the line is there. */
export function fetchLine({ name, suites, versions, arch }: KernelLine): string {
  const kept = join(CACHE, name)
  if (existsSync(kept)) return kept
  mkdirSync(CACHE, { recursive: true })
  const env = aptRoot(join(CACHE, `apt-${arch}`), [...new Set(LINES.flatMap((line) => line.suites))], arch)
  const names = new Set(say('apt-cache', ['pkgnames', 'linux-'], CACHE, env).split('\n'))
  const found = [...names]
    .flatMap((it) => (it.startsWith('linux-image-') && it.endsWith(`-cloud-${arch}`) ? [it.slice(12)] : []))
    .filter((it) => /^\d+\.\d+\.\d/.test(it) && versions.test(it))
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  for (const version of found) {
    const packages = packagesOf(version, env)
    // The archive drops modules of older ones before their images.
    if (packages.every((it) => names.has(it))) {
      unpack(packages, kept, env)
      return kept
    }
  }
  throw new Error(`no kernel ${name} with its modules in ${suites.join(', ')}`)
}

/** From 6.19 on the image is split: a base, the binary and the modules are packages of their own. */
function packagesOf(version: string, env: NodeJS.ProcessEnv): string[] {
  const image = `linux-image-${version}`
  const depends = say('apt-cache', ['depends', image], CACHE, env)
  const parts = ['base', 'binary', 'modules'].map((part) => `linux-${part}-${version}`)
  return [image, ...parts.filter((part) => depends.includes(`Depends: ${part}\n`))]
}

/** Puts the kernel of these packages into `kept`, however they are laid out. */
export function unpack(packages: readonly string[], kept: string, env = process.env): void {
  mkdirSync(CACHE, { recursive: true })
  const work = mkdtempSync(join(CACHE, 'unpack-'))
  try {
    say('apt-get', ['-qq', '-o', 'APT::Sandbox::User=root', 'download', ...packages], work, env)
    const tree = join(work, 'tree')
    for (const archive of readdirSync(work)) say('dpkg-deb', ['-x', archive, tree], work)
    if (!existsSync(join(tree, 'lib/modules'))) {
      mkdirSync(join(tree, 'lib'), { recursive: true })
      renameSync(join(tree, 'usr/lib/modules'), join(tree, 'lib/modules'))
    }
    const { image, version } = kernelIn(tree)
    mkdirSync(join(tree, 'boot'), { recursive: true })
    if (!existsSync(image)) renameSync(join(tree, 'lib/modules', version, 'vmlinuz'), image)
    say('depmod', ['-b', tree, version], work)
    renameSync(tree, kept)
  } finally {
    rmSync(work, { recursive: true })
  }
}

/** The kernel that this machine's apt calls the newest of Debian 12. */
export function fetchOldest(): void {
  if (existsSync(OLDEST)) return
  const name = /Depends: (linux-image-\S+)/.exec(say('apt-cache', ['depends', 'linux-image-cloud-amd64'], '/'))?.[1]
  if (name === undefined) throw new Error('apt knows no linux-image-cloud-amd64: run apt-get update')
  unpack([name], OLDEST)
}
