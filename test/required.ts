/**
 * What a test needs of the machine beside the kernel (test/kernel-features.ts): privilege, and programs of other packages.
 * Where it is not there the test is skipped, but on a CI machine (`CI=true`) it fails: a run there must not pass by proving
 * nothing.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Programs by which tests judge, and the Debian package of each. */
const PROGRAMS = {
  clang: 'clang',
  fish: 'fish',
  groff: 'groff-base',
  mandoc: 'mandoc',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  'systemd-analyze': 'systemd',
  'systemd-sysusers': 'systemd',
  testssl: 'testssl.sh',
  zsh: 'zsh',
} as const
export type Program = keyof typeof PROGRAMS

/** `reason` as tap prints it behind a skipped test. @throws Error with it on a CI machine */
export function skipping(reason: string, { CI } = process.env): string {
  if (CI === 'true') throw new Error(`${reason}: a CI machine has all that tests need (npm run setup -- --test)`)
  return reason
}

/** False, with the test skipped, when `program` is not installed: `if (!requireProgram(t, 'zsh')) return`, before any assertion. */
export function requireProgram(t: Pick<Test, 'plan'>, program: Program, environment = process.env): boolean {
  if ((environment.PATH ?? '').split(':').some((folder) => existsSync(join(folder, program)))) return true
  t.plan(0, skipping(`needs ${program}: apt-get install ${PROGRAMS[program]}`, environment))
  return false
}
