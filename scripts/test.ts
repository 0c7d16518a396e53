/**
 * `npm test`: runs tap with the arguments given. Where nobody watches, it prints at the end where the time went and, last of all, which
 * assertions failed, since of a long output it is the last part that is kept; a terminal is told so by tap itself. Ends as tap does.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { join } from 'node:path'
import { failuresIn, report } from './tap-failures.ts'
import { timesIn } from './tap-times.ts'

const TAP = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'tap')

const isWatched = process.stdout.isTTY === true
const child = spawn(TAP, process.argv.slice(2), { stdio: ['inherit', isWatched ? 'inherit' : 'pipe', 'inherit'] })
const parts: Buffer[] = []
child.stdout?.on('data', (part: Buffer) => {
  parts.push(part)
  process.stdout.write(part)
})
const [status, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
if (!isWatched) {
  const tap = Buffer.concat(parts).toString()
  process.stdout.write(`\n${timesIn(tap)}${report(failuresIn(tap))}`)
}
process.exitCode = status ?? 128 + (signal ? constants.signals[signal] : 0)
