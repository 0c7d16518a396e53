/**
 * The bpf filesystem, where maps and links live on without the agent: `<root>/v<BPF_LAYOUT>/<name>`. Another layout
 * number means another directory, so that an agent never takes over maps that it would misread.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statfsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import koffi from 'koffi'
import { KernelError } from '../libc.ts'
import { BPF_LAYOUT } from '../numbers.ts'

/** Of folders of pins: nobody but root sees what there is. */
export const FOLDER = { recursive: true, mode: 0o700 } as const

/** BPF_FS_MAGIC of linux/magic.h */
const BPF_FS_MAGIC = 0xcafe4a11

/** Where the distribution mounts the bpf filesystem; a root below it means that mount. */
const SYSTEM_MOUNT = '/sys/fs/bpf'

/** Folder of a layout in which the programs stay pinned (kept.ts). */
export const KEPT = 'code'

const libc = koffi.load(null)
const mount: (source: string, target: string, type: string, flags: number, data: null) => number = libc.func(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data)',
)

/**
 * Makes sure that `root` is a directory on a bpf filesystem, mounting one when it is not: on /sys/fs/bpf for a root
 * below it, else on the root itself. Throws an error that says what the operator must do.
 */
export function ensureBpffs(root: string): void {
  const target = root === SYSTEM_MOUNT || root.startsWith(`${SYSTEM_MOUNT}/`) ? SYSTEM_MOUNT : root
  try {
    mkdirSync(target, { recursive: true })
    if (!isBpffs(target) && mount('bpf', target, 'bpf', 0, null) < 0) throw new KernelError(koffi.errno())
    mkdirSync(root, FOLDER)
  } catch (cause) {
    throw new Error(`${root} is no bpf filesystem: run as root: mount -t bpf bpf ${target}`, { cause })
  }
}

/** True when `path` exists and lies on a bpf filesystem. */
export function isBpffs(path: string): boolean {
  try {
    return statfsSync(path).type === BPF_FS_MAGIC
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
}

/** Directory of this agent's pins below `root`, which `ensureBpffs` has seen; made when it is not there. */
export function layoutDir(root: string): string {
  const dir = join(root, `v${BPF_LAYOUT}`)
  mkdirSync(dir, FOLDER)
  return dir
}

/** Names in a folder of pins; none where it is no folder, or somebody has removed it, which may happen at any moment. */
export function pinsIn(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    throw error
  }
}

/** How often a folder is made again that goes while something is pinned into it. */
const TRIES = 5

/** Pins at `path` what `pin` pins there; its folder is made if it is not there, or goes meanwhile. @throws KernelError */
export function pinAt(path: string, pin: (path: string) => void): void {
  for (let left = TRIES; ; left--) {
    mkdirSync(dirname(path), FOLDER)
    try {
      pin(path)
      return
    } catch (error) {
      if (left === 0 || !(error instanceof KernelError && error.code === 'ENOENT')) throw error
    }
  }
}

/** Above the layouts of all releases. */
const RETIRED = 1_000_000

/**
 * Moves `folders` of this layout (all of it unless given) to a layout of their own: what is pinned there goes on until the
 * layouts that are not this one are removed.
 */
export function retire(root: string, folders: readonly string[] = ['']): void {
  const to = join(root, `v${Math.max(RETIRED, (layouts(root).at(-1) ?? 0) + 1)}`)
  for (const folder of folders) {
    const from = join(layoutDir(root), folder)
    if (!existsSync(from)) continue
    if (folder !== '') mkdirSync(to, FOLDER)
    renameSync(from, join(to, folder))
  }
}

/** Layout numbers that have a directory below `root`, ascending. */
export function layouts(root: string): number[] {
  const found = pinsIn(root).flatMap((name) => /^v([1-9][0-9]*)$/.exec(name)?.[1] ?? [])
  return found.map(Number).sort((a, b) => a - b)
}

/** Removes every pin of a layout: its links go off their hooks, its maps end with their last user. */
export function removeLayout(root: string, layout: number): void {
  rmSync(join(root, `v${layout}`), { recursive: true, force: true })
}
