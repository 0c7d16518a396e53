/** Another build of the agent: a copy whose programs in the kernel and whose responder are not the same, byte for byte. */
import { appendFileSync, cpSync, readdirSync, symlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { scratch } from '../build.ts'
import type { Scope } from '../netns.ts'

const BUILD = join(import.meta.dirname, '..', '..')
const ROOT = join(BUILD, '..')

/** Returns its main.js. */
export function otherBuild(t: Scope): string {
  const root = scratch(t, 'build')
  const build = join(root, 'build')
  const filter = (path: string) => path === BUILD || (basename(path) !== 'test' && !path.endsWith('.map'))
  cpSync(BUILD, build, { recursive: true, filter })
  cpSync(join(ROOT, 'package.json'), join(root, 'package.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  // What stands behind the last section of an object is nobody's.
  const programs = join(build, 'dataplane', 'bpf', 'src')
  for (const file of readdirSync(programs)) if (file.endsWith('.o')) appendFileSync(join(programs, file), 'other')
  appendFileSync(join(build, 'responder', 'main.js'), '\n// other\n')
  return join(build, 'core', 'main.js')
}
