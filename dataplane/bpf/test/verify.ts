/** Has the kernel verify every object of the build, and says so: `node verify.js`. For a kernel that is not this one. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { ensureBpffs, layoutDir } from '../bpffs.ts'
import { openObject } from '../object.ts'

const SOURCES = join(import.meta.dirname, '../src')
const BPFFS = '/sys/fs/bpf'

ensureBpffs(BPFFS)
for (const name of readdirSync(SOURCES).filter((file) => file.endsWith('.bpf.o'))) {
  const root = mkdtempSync(join(BPFFS, 'verify-'))
  const object = openObject(join(SOURCES, name), { pinDir: layoutDir(root) })
  await object.load()
  object.close()
  rmSync(root, { recursive: true })
  process.stdout.write(`${name} verified by ${release()}\n`)
}
