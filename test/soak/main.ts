/**
 * `npm run soak`: drives one agent at random for MINUTES (10), by SEED; what is left to chance is the same for the same
 * seed, but for the instants at which the agent is killed. REPLAY=file plays a list of items that an earlier run printed.
 * FORMER=core/main.js of another release's build begins with that agent: the first upgrade leads from it to this one.
 */
import { readFileSync } from 'node:fs'
import { whyLacking } from '../kernel-features.ts'
import { requireRoot } from '../netns.ts'
import { SEED } from '../seed.ts'
import type { Item } from './play.ts'
import { kernel, type Outcome, replay, soak } from './run.ts'
import { shorten } from './shorten.ts'

const { MINUTES = '10', SHORTEN_MINUTES = '5', REPLAY = '' } = process.env
const SPANS: Readonly<Record<string, string>> = { kill: 'kill -9', replace: 'a replacement of 1,000 rules' }
const NOT_DRIVEN: readonly (readonly [string, string])[] = [
  ['bonds', whyLacking('bonding') ?? 'they have tests of their own'],
  ['leases', 'there are no DHCP clients'],
  ['a cluster', 'there is one node'],
]
const say = (line: string) => void process.stdout.write(`${line}\n`)
if (
  !requireRoot({ name: 'soak', plan: (_: number, why?: string) => say(why ?? '') } as Parameters<typeof requireRoot>[0])
)
  process.exit(1)

process.exitCode = REPLAY === '' ? await drive() : await again()

async function drive(): Promise<number> {
  say(`SEED=${SEED} MINUTES=${MINUTES}, Linux ${kernel()}`)
  const outcome = await soak(SEED, Number(MINUTES) * 60_000, say)
  tell(outcome)
  if (outcome.broken === undefined) return 0
  say(
    `\nBROKEN with SEED=${SEED} after ${outcome.items.length} items:\n${outcome.broken}\n\nlooking for a shorter way there …`,
  )
  const items = await shorten(outcome.items, Number(SHORTEN_MINUTES) * 60_000)
  say(
    `${items.length} items; play them again with REPLAY=file npm run soak:\n[\n${items.map((item) => JSON.stringify(item)).join(',\n')}\n]`,
  )
  return 1
}

async function again(): Promise<number> {
  const broken = await replay(JSON.parse(readFileSync(REPLAY, 'utf8')) as Item[])
  say(broken ?? 'nothing was wrong')
  return broken === undefined ? 0 : 1
}

function tell({ rounds, counts, crossed, tally, faults }: Outcome): void {
  const done = [...tally.values()].reduce((sum, one) => sum + one.done, 0)
  say(`${rounds} rounds, ${done} changes; ${Array.from(faults, ([what, many]) => `${what} ${many}`).join(', ')}`)
  for (const [kind, one] of tally) {
    if (one.done === 0) say(`  ${kind}: none of ${one.tried} was taken: ${one.refused}`)
  }
  for (const [name, { sent, received, doubled }] of counts) {
    say(`  ${name}: ${sent} packets, ${sent - received} lost, ${doubled} doubled`)
  }
  for (const [what, { times, sent, lost }] of crossed) {
    say(`  across ${SPANS[what] ?? what} (${times} times): ${sent} packets, ${lost} lost`)
  }
  for (const [what, why] of NOT_DRIVEN) say(`  not driven: ${what}, ${why}`)
}
