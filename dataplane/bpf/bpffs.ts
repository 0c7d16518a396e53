/**
 * The bpf filesystem, where maps and links live on without the agent: `<root>/v<BPF_LAYOUT>/<name>`. Another layout
 * number means another directory, so that an agent never takes over maps that it would misread.
 */
import { mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import koffi from 'koffi'
import { KernelError } from '../libc.ts'
import { BPF_LAYOUT } from '../numbers.ts'

/** BPF_FS_MAGIC of linux/magic.h */
const BPF_FS_MAGIC = 0xcafe4a11

/** Where the distribution mounts the bpf filesystem; a root below it means that mount. */
const SYSTEM_MOUNT = '/sys/fs/bpf'

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
    mkdirSync(root, { recursive: true })
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
  mkdirSync(dir, { recursive: true })
  return dir
}

/** Layout numbers that have a directory below `root`, ascending. */
export function layouts(root: string): number[] {
  const found = readdirSync(root).flatMap((name) => /^v([1-9][0-9]*)$/.exec(name)?.[1] ?? [])
  return found.map(Number).sort((a, b) => a - b)
}

/** Removes every pin of a layout: its links go off their hooks, its maps end with their last user. */
export function removeLayout(root: string, layout: number): void {
  rmSync(join(root, `v${layout}`), { recursive: true, force: true })
}
