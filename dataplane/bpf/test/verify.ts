/** Has the kernel verify every object of the build, and says so: `node verify.js`. For a kernel that is not this one. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { ensureBpffs, layoutDir } from '../bpffs.ts'
import { openObject } from '../object.ts'

const SOURCES = join(import.meta.dirname, '../src')
const BPFFS = '/sys/fs/bpf'

/** First Linux that has what an object needs, where that is not every one that the agent supports: without it nft does the work. */
const SINCE: Readonly<Record<string, readonly [major: number, minor: number]>> = {
  'firewall.bpf.o': [6, 4],
  'lb.bpf.o': [6, 6],
}

/** Whether the running kernel is older than the object needs. */
function isTooOld(name: string): boolean {
  const [major = 0, minor = 0] = release().split('.').map(Number)
  const [needsMajor, needsMinor] = SINCE[name] ?? [0, 0]
  return major < needsMajor || (major === needsMajor && minor < needsMinor)
}

ensureBpffs(BPFFS)
for (const name of readdirSync(SOURCES).filter((file) => file.endsWith('.bpf.o'))) {
  if (isTooOld(name)) {
    process.stdout.write(`${name} not tried: ${release()} is older than it needs\n`)
    continue
  }
  const root = mkdtempSync(join(BPFFS, 'verify-'))
  const object = openObject(join(SOURCES, name), { pinDir: layoutDir(root) })
  await object.load()
  object.close()
  rmSync(root, { recursive: true })
  process.stdout.write(`${name} verified by ${release()}\n`)
}
