/**
 * `npm run test:kernels [-- --kernel 6.12] [-- --tier verify] [-- --arch arm64]`: Debian's kernels of scripts/kernels.ts, each in
 * a throw-away machine (scripts/test-vm.ts) with this machine's userland and the build that is there; those for arm64 with that of
 * scripts/foreign.ts. Prints a table for each tier; ends with 77 where such a machine cannot be had. Emulated processors tell
 * nothing of speed, nor of the order of loads and stores, so nothing of these is tested here.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { FOREIGN_NODE, fetchForeign } from './foreign.ts'
import { fetchLine, kernelIn, LINES } from './kernels.ts'
import { laneTable, type Row } from './lane-table.ts'
import { TIERS, type Tier } from './tiers.ts'

const BUILD = join(import.meta.dirname, '..')
const LOGS = join(BUILD, '..', '.cache/test-vm/logs')
const SKIPPED = 77
/** Of a tier on one kernel; `start` takes ten minutes on two processors, `packets` longer. */
const TIMEOUT_S = process.env.VM_TIMEOUT ?? '5400'

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      kernel: { type: 'string', multiple: true },
      tier: { type: 'string', multiple: true },
      arch: { type: 'string', default: 'amd64' },
    },
  })
  const tiers = Object.entries(TIERS).filter(([name]) => values.tier?.includes(name) ?? true)
  const known = new Set(LINES.map(({ name }) => name))
  const unknown = [
    ...(values.kernel ?? []).filter((it) => !known.has(it)),
    ...(values.tier ?? []).filter((it) => !(it in TIERS)),
    ...(LINES.some(({ arch }) => arch === values.arch) ? [] : [values.arch]),
  ]
  if (unknown.length > 0)
    throw new Error(
      `no ${unknown.join(', ')}: kernels ${[...known].join(', ')}; tiers ${Object.keys(TIERS).join(', ')}; arch amd64, arm64`,
    )
  // Who names a kernel means that one, whatever it is for.
  const wanted = values.kernel ?? LINES.filter(({ arch }) => arch === values.arch).map(({ name }) => name)
  for (const [name, tier] of tiers) {
    const rows: Row[] = []
    for (const kernel of tier.kernels.filter((it) => wanted.includes(it))) {
      const found = await onKernel(kernel, name, tier)
      if (found === undefined) {
        process.exitCode = SKIPPED
        return
      }
      rows.push(...found)
    }
    if (rows.length > 0) process.stdout.write(`\n${name}\n${laneTable(rows)}`)
    if (rows.some(({ passed }) => !passed)) process.exitCode = 1
  }
}

/** What became of each file; undefined when there is no machine to run it in, which was said. */
async function onKernel(kernel: string, name: string, tier: Tier): Promise<Row[] | undefined> {
  const line = LINES.find((it) => it.name === kernel)
  if (line === undefined) throw new Error(`scripts/kernels.ts names no kernel ${kernel}`)
  const base = fetchLine(line)
  const isForeign = line.arch === 'arm64'
  if (isForeign) fetchForeign()
  const node = isForeign ? FOREIGN_NODE : process.execPath
  // Without the flavour, which is the same for all.
  const place = kernelIn(base)
    .version.replace(/\+.*-cloud-arm64$/, ' arm64')
    .replace(/-cloud-.*/, '')
  const env = { ...process.env, VM_KERNEL: base, VM_TIMEOUT: TIMEOUT_S }
  const tests = [join(BUILD, 'scripts/vm-tests.js'), ...(tier.modules ? ['--modules'] : []), ...tier.files]
  const machine = spawn(process.execPath, [join(BUILD, 'scripts/test-vm.js'), node, ...tests], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => machine.kill(signal))
  const ended = once(machine, 'exit')
  let text = ''
  for await (const part of machine.stdout.setEncoding('utf8')) text += part
  const [status] = (await ended) as [number | null]
  if (status === SKIPPED) return undefined
  mkdirSync(LOGS, { recursive: true })
  const log = join(LOGS, `${kernel}-${name}.log`)
  writeFileSync(log, text)
  const rows = tier.files.map((file) => rowOf(place, file, text))
  const failed = rows.filter(({ passed }) => !passed).length
  process.stderr.write(`${place} ${name}: ${failed === 0 ? 'passed' : `${failed} failed, see ${log}`}\n`)
  return rows
}

/** By the summary of scripts/vm-tests.ts; what that does not name never came to its end. */
function rowOf(place: string, file: string, text: string): Row {
  const line = text.split('\n').find((it) => it.includes(` ${file} in `) && /^(passed|FAILED)/.test(it)) ?? ''
  const seconds = Number(/ in (\d+) s$/.exec(line)?.[1] ?? 0)
  return { place, test: file, seconds, passed: line.startsWith('passed') }
}

await main()
