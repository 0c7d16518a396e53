import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import type { ReasonName } from '../reason.ts'
import { Chance } from './chance.ts'
import { changeable } from './loaded.ts'
import { refer } from './reference.ts'
import { type Packet, type Stage, stage } from './stage.ts'

/** Packets in all, `PACKETS=100000` for a long run; `SEED` repeats one. */
const PACKETS = Number(process.env.PACKETS ?? 10_000)
const SEED = Number(process.env.SEED ?? 20_235)
const PACKETS_A_WORLD = 100

requireRoot(t)

/** Plays random packets in one world, by the programs and by the reference; what differs, in words. */
async function playWorld(play: Stage, chance: Chance): Promise<string[]> {
  const [world, differences] = [chance.world(), [] as string[]]
  play.set(world)
  const before = await play.tallies()
  const referred = new Map<ReasonName, number>()
  for (let n = 0; n < PACKETS_A_WORLD; n++) {
    const packet = chance.packet()
    const want = refer(world, packet)
    const { verdict, to, mark } = await play.play(packet)
    for (const reason of want.reasons) referred.set(reason, (referred.get(reason) ?? 0) + 1)
    if (verdict !== want.verdict || to !== want.to || mark !== want.mark)
      differences.push(`${told(packet)}: ${JSON.stringify({ verdict, to, mark })} instead of ${JSON.stringify(want)}`)
  }
  for (const [reason, count] of await play.tallies()) {
    const [more, expected] = [count - (before.get(reason) ?? 0), referred.get(reason) ?? 0]
    if (more !== expected) differences.push(`${reason} was tallied ${more} times instead of ${expected}`)
  }
  const [changes, wanted] = [play.changes(world), changeable(world)]
  for (const part of ['ports', 'endpoints', 'far', 'owed', 'links', 'claimed', 'outside', 'askedBy'] as const) {
    const [is, shall] = [changes[part], wanted[part]].map((map) => JSON.stringify([...map]))
    if (is !== shall) differences.push(`${part} are ${is} instead of ${shall}`)
  }
  return differences
}

function told({ data, ...rest }: Packet): string {
  return `${JSON.stringify(rest)} ${data.toString('hex')}`
}

t.test(`the programs agree with the reference on ${PACKETS} random packets of seed ${SEED}`, async (t) => {
  const play = await stage(t)
  const chance = new Chance(SEED)
  for (let n = 0; n < PACKETS; n += PACKETS_A_WORLD) {
    const differences = await playWorld(play, chance)
    if (differences.length > 0) t.fail(`world ${n / PACKETS_A_WORLD}\n${differences.slice(0, 5).join('\n')}`)
  }
  const tallies = await play.tallies()
  const never = [...tallies].filter(([, count]) => count === 0).map(([reason]) => reason)
  t.same(never, ['claim', 'no_program', 'kernel', 'ceiling', 'quota'], 'every other reason came up')
})
