/** The package of this build, made once a test file, quickly instead of small. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { scratch } from '../build.ts'
import type { Scope } from '../netns.ts'

const PACKAGE = join(import.meta.dirname, '..', '..', 'scripts', 'package.js')

/** Path of the file, which goes with the test. */
export function builtPackage(t: Scope, ...options: string[]): string {
  const out = scratch(t, 'package')
  const args = [PACKAGE, '--level', '0', '--out', out, ...options]
  return execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
}
