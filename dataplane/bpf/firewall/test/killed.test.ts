/** An agent is killed in the middle of changes, again and again (KILLS): the rules are those before or behind one of them. */
import '../../../../test/inside.ts'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { dice } from '../../../../test/firewall/dice.ts'
import { asked, packets } from '../../../../test/firewall/packets.ts'
import { reference } from '../../../../test/firewall/reference.ts'
import { requireRoot } from '../../../../test/netns.ts'
import { FILTER_PAGE } from '../../../numbers.ts'
import { layoutDir } from '../../bpffs.ts'
import { bytes, u32 } from '../../codec.ts'
import { type BpfMap, mapInfo, openMap } from '../../map.ts'
import { mapMemory } from '../../mapped.ts'
import { bpffs } from '../../test/support.ts'
import { Arena } from '../arena.ts'
import { openById } from '../by-id.ts'
import { Classifier } from '../classifier.ts'
import { DeviceNames, deviceName, deviceNumber } from '../devices.ts'
import { type FilterEntry, filterFingerprint } from '../entries.ts'
import { FilterFamily } from '../family.ts'
import { type Family, familiesOf } from '../image.ts'
import { openClassifier } from '../open.ts'
import { SETTINGS_BYTES, Settings } from '../settings.ts'
import { TABLES_BYTES, TableSet } from '../table-set.ts'
import { adopt } from '../upkeep.ts'
import { marks, misplaced, needed, SEED, sweepAll } from './small.ts'
import { Steps } from './steps.ts'

requireRoot(t)
const KILLS = Number(process.env.KILLS ?? 6)
t.comment(`SEED=${SEED} KILLS=${KILLS}`)
const SCRIPT = fileURLToPath(new URL('./changer.js', import.meta.url))

t.test('fw-08 rt-01 killed at any moment, the next agent finds one of two states, and goes on', async (t) => {
  const root = bpffs(t)
  const draw = dice(SEED)
  let done = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const last = await killedAfter(root, done, draw.between(0, draw.maybe(0.5) ? 20 : 150))
    const [before, after] = [new Steps(SEED, last - 1), new Steps(SEED, last)]
    await assertWhole(t, root, [before, after])
    const it = await openClassifier({ root, onProblem: (error) => t.fail(String(error)) })
    const found = texts((await it.rules.observe()) as FilterEntry[])
    const standing = [before, after].find((steps) => found === texts([...steps.held.values()]))
    if (!standing) return t.fail(`kill ${kill} of SEED=${SEED}: change ${last} is half done`)
    const decide = reference([...standing.held.values()])
    for (const packet of packets(standing.pool, 150, SEED + kill)) {
      const { id } = await it.filter.trace(asked(packet))
      if (id !== decide(packet)?.id) return t.fail(`kill ${kill} of SEED=${SEED}: packets meet other rules`)
    }
    done = standing.step
    // It goes on where the other was.
    const next = new Steps(SEED, done)
    await it.rules.apply(next.next())
    t.equal(
      texts((await it.rules.observe()) as FilterEntry[]),
      texts([...next.held.values()]),
      `killed in change ${last}`,
    )
    done = next.step
    await it.close()
  }
  return undefined
})

const texts = (rules: readonly FilterEntry[]): string => rules.map(filterFingerprint).sort().join('\n')

/** Number of the change in which an agent was that made changes behind `step` for so long. */
async function killedAfter(root: string, step: number, ms: number): Promise<number> {
  const agent: ChildProcess = spawn(process.execPath, [SCRIPT, root, String(SEED), String(step)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  if (!agent.stdout) throw new TypeError('no output')
  let last = step
  const lines = createInterface({ input: agent.stdout }).on('line', (line) => {
    last = Number(line)
  })
  const [ended, closed] = [once(agent, 'exit'), once(lines, 'close')]
  await Promise.race([once(lines, 'line'), ended])
  await new Promise((resolve) => setTimeout(resolve, ms))
  agent.kill('SIGKILL')
  const [code] = await ended
  if (code !== null) throw new Error(`the agent ended by itself with ${code}`)
  await closed
  return last
}

/** Looks at the memory as the next agent does: nothing is lost of it, and nothing stands there that is in no rule. */
async function assertWhole(
  t: Pick<Test, 'equal' | 'same' | 'fail'>,
  root: string,
  states: readonly Steps[],
): Promise<void> {
  const dir = layoutDir(join(root, 'firewall'))
  const pinned = <V>(name: string, value: Parameters<typeof openMap<number, V>>[2]) =>
    openMap(join(dir, name), u32, value)
  const maps = [pinned('filter_settings', bytes(SETTINGS_BYTES)), pinned('filter_tables', bytes(TABLES_BYTES))] as const
  const settings = mapMemory(maps[0].fd, SETTINGS_BYTES, 'settings')
  const tables = mapMemory(maps[1].fd, 2 * TABLES_BYTES, 'tables')
  const names = openMap(join(dir, 'filter_devices'), deviceName, deviceNumber)
  const outer = [pinned('filter_arena4', u32), pinned('filter_arena6', u32)] as const
  const now = new Settings(settings.buffer)
  const families: FilterFamily[] = []
  for (const [at, family] of ([4, 6] satisfies Family[]).entries()) {
    const arena = await arenaOf(family, outer[at === 0 ? 0 : 1])
    families.push(new FilterFamily(arena, new TableSet(family, tables.buffer), now.seed))
  }
  const classifier = new Classifier(families, new DeviceNames(names), now)
  for (const family of families) await adopt(classifier, family)
  classifier.devices.prune()
  await sweepAll({ classifier })
  for (const family of families) {
    const { arena, standing } = family
    const wrong = arena.room.used !== needed(family) || marks(family) !== 0
    t.same(misplaced(family), [])
    if (wrong) t.equal(arena.room.used, needed(family), `cells of IPv${family.family}; ${marks(family)} marks`)
    const sizes = states.map(({ held }) =>
      [...held.values()].filter((it) => familiesOf(it.match).includes(arena.family)),
    )
    if (!sizes.some(({ length }) => length === standing.size))
      t.fail(`${standing.size} rules of IPv${family.family} count`)
    arena.close()
  }
  const wanted = states.map(({ held }) => new Set([...held.values()].flatMap((it) => it.match.interface ?? [])))
  const known = [...names.entries()].map(([name]) => name)
  if (!wanted.some((set) => set.size === known.length && known.every((name) => set.has(name)))) t.fail(known.join())
  settings.unmap()
  tables.unmap()
  for (const map of [...maps, ...outer, names]) map.close()
}

async function arenaOf(family: Family, outer: BpfMap<number, number>): Promise<Arena> {
  const fd = await openById(outer.get(0) ?? 0)
  try {
    return new Arena(family, { fd, cells: mapInfo(fd).maxEntries * FILTER_PAGE }, false)
  } finally {
    closeSync(fd)
  }
}
