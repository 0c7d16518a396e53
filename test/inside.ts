/**
 * Imported first by a test file, runs that file inside a network namespace of its own: links can only be attached to
 * interfaces of the process's namespace. The outer process makes the namespace, waits and removes it.
 */
import { spawnSync } from 'node:child_process'
import { PATIENCE } from './kernel-features.ts'
import { type Netns, netns } from './netns.ts'

/** Set for the inner process; the name of its namespace. */
const VARIABLE = 'STRATUM_TEST_NETNS'

/** Seconds that the test runner gives a file (`timeout` in .taprc); it tells the file by this variable. */
const { TAP_TIMEOUT = '240' } = process.env

/** The outer process ends the inner one before the test runner would end the outer one, and still removes the namespace. */
const TIMEOUT_MS = (Number(TAP_TIMEOUT) * 1000 - 10_000) * PATIENCE

/** Name of the namespace that this process is in; undefined when it could not be made for want of privilege. */
export const here: string | undefined = process.env[VARIABLE]

if (here === undefined && process.getuid?.() === 0) process.exit(await runInside())

async function runInside(): Promise<number> {
  const removals: (() => Promise<void>)[] = []
  const ns: Netns = netns({ teardown: (remove: () => Promise<void>) => removals.push(remove) }, 'in')
  const { status, error } = spawnSync(
    'nsenter',
    [`--net=${ns.path}`, process.execPath, ...process.execArgv, ...process.argv.slice(1)],
    { stdio: 'inherit', timeout: TIMEOUT_MS, env: { ...process.env, [VARIABLE]: ns.name } },
  )
  for (const remove of removals) await remove()
  if (error !== undefined) process.stderr.write(`${error}\n`)
  return status ?? 1
}
