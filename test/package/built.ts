/** The package of this build, quickly instead of small. Made once for all test files, and anew when the build has changed. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { files } from '../../scripts/package-tree.ts'
import { scratch } from '../build.ts'
import type { Scope } from '../netns.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const KEPT = join(ROOT, 'build', 'package-of-tests')
const HOME = 'usr/lib/stratum-node'

/** Packs it now. Path of the file, which goes with the test. */
export function freshPackage(t: Scope): string {
  const args = [join(ROOT, 'build/scripts/package.js'), '--level', '0', '--out', scratch(t, 'package')]
  // Else that of the last commit, by which a kept one would differ.
  const env = { ...process.env, SOURCE_DATE_EPOCH: '1700000000' }
  return execFileSync(process.execPath, args, { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'ignore'] }).trim()
}

/** The same, packed unless that was done since the build. */
export function builtPackage(t: Scope): string {
  const kept = join(KEPT, digest())
  // Another test file may be at it as well: a name is taken at once, by whoever comes last.
  if (!existsSync(kept)) {
    const file = freshPackage(t)
    mkdirSync(KEPT, { recursive: true })
    for (const older of readdirSync(KEPT).filter((name) => !name.includes('.')))
      rmSync(join(KEPT, older), { force: true })
    copyFileSync(file, `${kept}.${process.pid}`)
    renameSync(`${kept}.${process.pid}`, kept)
    return file
  }
  // Out of the checkout, which the machines of these tests do not have.
  const file = join(scratch(t, 'package'), 'stratum-node.deb')
  copyFileSync(kept, file)
  return file
}

/** Changes with every file that goes into a package. */
function digest(): string {
  const hash = createHash('sha256')
  const built = ['core', 'plugins', 'dataplane', 'responder', 'proto', 'scripts'].map((folder) => `build/${folder}`)
  const parts = [...built, 'templates', 'scripts'].flatMap((folder) =>
    files(join(ROOT, folder)).map((it) => join(folder, it)),
  )
  for (const path of [...parts, 'package.json', 'package-lock.json', 'README.md', 'CHANGELOG.md']) {
    const { size, mtimeMs } = statSync(join(ROOT, path))
    hash.update(`${path} ${size} ${mtimeMs}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}

/**
 * A later version of it: another number, other bytes in the programs for the kernel and in the responder, so that both are
 * replaced, and a migration more in `area`. `objects`: those of the kernel, compiled otherwise.
 */
export function laterPackage(
  t: Scope,
  file: string,
  area: string,
  objects: Readonly<Record<string, string>> = {},
): string {
  const dir = scratch(t, 'later')
  const tree = join(dir, 'tree')
  execFileSync('dpkg-deb', ['--raw-extract', file, tree])
  const edit = (path: string, change: (text: string) => string) =>
    writeFileSync(join(tree, path), change(readFileSync(join(tree, path), 'utf8')))
  const version = JSON.parse(readFileSync(join(tree, HOME, 'package.json'), 'utf8')).version
  const later = `${version}.1`
  for (const path of ['DEBIAN/control', 'DEBIAN/preinst', `${HOME}/package.json`]) {
    edit(path, (text) => text.replaceAll(version, later))
  }
  for (const name of ['port', 'lb', 'firewall']) {
    const path = join(tree, HOME, `build/dataplane/bpf/src/${name}.bpf.o`)
    if (objects[name] === undefined) appendFileSync(path, '\0')
    else execFileSync('cp', [objects[name], path])
  }
  appendFileSync(join(tree, HOME, 'build/responder/main.js'), '\n')
  const migrations = `${HOME}/build/plugins/${area}/migrations`
  edit(`${migrations}/meta/_journal.json`, (text) => {
    const journal = JSON.parse(text)
    const { idx, when, ...last } = journal.entries.at(-1)
    journal.entries.push({ ...last, idx: idx + 1, when: when + 1, tag: 'later' })
    return JSON.stringify(journal)
  })
  writeFileSync(join(tree, migrations, 'later.sql'), `CREATE TABLE ${area}_later (id integer);\n`)
  const made = join(dir, 'later.deb')
  execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '--build', tree, made], { stdio: 'ignore' })
  return made
}
