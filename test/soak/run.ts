/** A soak from beginning to end: items drawn by a seed until the time is over, everything deleted, and nothing left. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { whyNoBgp } from '../frr.ts'
import { Broken } from './broken.ts'
import type { Crossed } from './crossings.ts'
import { Dice } from './dice.ts'
import { others } from './kind.ts'
import { MEDDLING } from './meddling.ts'
import type { Model } from './model.ts'
import { type SoakNode, soakNode } from './node.ts'
import { BGP_KINDS, type Item, KINDS, Player, type Tally } from './play.ts'
import type { Counted } from './streams.ts'

const CHANGES = 25
/** How large the node may get: from then on as much goes as comes. */
const ENOUGH = 400
const PATIENCE_MS = 60_000

/** What a round begins with. */
const ROUNDS = ['calm', 'kill', 'restart', 'meddle', 'kill', 'replace', 'upgrade', 'reboot', 'kill', 'meddle'] as const
type Round = (typeof ROUNDS)[number]

export interface Outcome {
  seed: number
  rounds: number
  counts: ReadonlyMap<string, Counted>
  crossed: ReadonlyMap<string, Crossed>
  tally: ReadonlyMap<string, Tally>
  faults: ReadonlyMap<string, number>
  /** What was wrong, and all that led there. */
  broken?: string
  items: Item[]
}

/** Plays for `ms`, at least each of the rounds `first`. */
export async function soak(
  seed: number,
  ms: number,
  say: (line: string) => void,
  first: readonly Round[] = ROUNDS,
): Promise<Outcome> {
  const dice = new Dice(seed)
  const items: Item[] = []
  const deadline = Date.now() + ms
  let rounds = 0
  const outcome = await attempt(async (player) => {
    const play = (item: Item) => {
      items.push(item)
      return player.play(item)
    }
    while (rounds < first.length || Date.now() < deadline) {
      const sort = first[rounds] ?? dice.pick(ROUNDS)
      for (const fault of faults(sort, dice)) await play(fault)
      for (let n = 0; n < CHANGES && !player.isDown; n++) {
        // What changed before shall stand when it starts anew.
        if ((sort === 'restart' || sort === 'upgrade') && n === CHANGES - 5) await play({ do: sort })
        const change = draw(player, dice, items.length)
        if (change) await play(change)
      }
      await play({ do: 'check' })
      rounds++
      say(`round ${rounds}, ${sort}: ${player.model.size} things`)
    }
  })
  return { seed, rounds, items, ...outcome }
}

/** The same items once more, from a new node on. Returns what was wrong, if anything was. */
export async function replay(items: readonly Item[]): Promise<string | undefined> {
  const { broken } = await attempt(async (player) => {
    for (const item of items) await player.play(item)
    await player.play({ do: 'check' })
  })
  return broken
}

async function attempt(work: (player: Player) => Promise<void>) {
  const ends: (() => unknown)[] = []
  let player: Player | undefined
  let broken: string | undefined
  try {
    const node = await soakNode({ teardown: (end: () => unknown) => void ends.unshift(end) })
    // Then `bare` is what another release makes.
    const former = node.isFormer()
    const bare = leftIn(node)
    await node.begin()
    player = new Player(node, whyNoBgp() === false)
    await work(player)
    await node.pause()
    lossless(node.counts)
    await deleteAll(player)
    if (!former) await nothingLeft(node, bare)
  } catch (error) {
    if (!(error instanceof Error)) throw error
    broken = error instanceof Broken ? error.message : `${error.stack}`
    await player?.node.pause().catch(() => {})
  } finally {
    for (const end of ends) await end()
  }
  const { counts = new Map(), crossed = new Map() } = player?.node ?? {}
  const { tally = new Map(), faults = new Map() } = player ?? {}
  return { counts, crossed, tally, faults, ...(broken !== undefined && { broken }) }
}

function faults(sort: Round, dice: Dice): Item[] {
  switch (sort) {
    case 'kill':
      return [{ do: 'kill', ms: 5 + dice.below(250) }]
    case 'reboot':
      return [{ do: 'reboot' }]
    case 'replace':
      return [{ do: 'replace' }]
    case 'meddle':
      return [{ do: 'meddle', with: dice.pick(Object.keys(MEDDLING)), draw: dice.share() }]
    default:
      return []
  }
}

function draw({ model, withBgp }: Player, dice: Dice, n: number): Item | undefined {
  const kinds = { ...KINDS, ...(withBgp && BGP_KINDS) }
  const names = Object.keys(kinds).filter((kind) => model.size < ENOUGH || kind.endsWith('_gone') || dice.chance(0.3))
  for (let tries = 0; tries < 20; tries++) {
    const kind = dice.pick(names)
    const args = kinds[kind]?.propose(model, dice)
    if (args !== undefined) return { do: 'change', kind, name: `s${n}`, args }
  }
  return undefined
}

function lossless(counts: SoakNode['counts']): void {
  for (const [name, { sent, received, doubled }] of counts) {
    if (received !== sent || doubled > 0)
      throw new Broken(`${name}: of ${sent} packets ${received} came, ${doubled} twice`)
  }
}

/** In an order in which nothing rests on what goes. */
const LAST = [
  'route_maps',
  'prefix_lists',
  'floats',
  'overlays',
  'pools',
  'zones',
  'shared',
  'networks',
  'ranges',
  'tenants',
]

async function deleteAll(player: Player): Promise<void> {
  const { model } = player
  const gone = Object.entries({ ...KINDS, ...BGP_KINDS }).filter(([kind]) => kind.endsWith('_gone'))
  const order = (kind: string) => LAST.findIndex((of) => of.startsWith(kind.replace('_gone', '')))
  // The gateway of a network is a setting of it, which goes with it.
  const removals = gone.filter(([kind]) => kind !== 'gateway_of_network_gone').sort(([a], [b]) => order(a) - order(b))
  for (const [kind, { effect }] of removals) {
    const collection = collectionOf(effect, model)
    if (collection === undefined) continue
    if (kind === 'allocation_gone') await player.play({ do: 'check' })
    for (const on of others(model, collection)) {
      if (model.has(collection, on)) await player.play({ do: 'change', kind, name: 'end', args: { on } })
    }
  }
  await player.play({ do: 'change', kind: 'default', name: 'end', args: { action: 'allow' } })
  await player.play({ do: 'check' })
  const left = [...model.collections()].flatMap((of) => others(model, of).map((name) => `${of} ${name}`))
  if (left.length > 0) throw new Broken(`not deleted: ${left.join(', ')}`)
}

/** Which collection a removal is of: that of the last thing it takes away. */
const collectionOf = (effect: (args: { on: string }, name: string, model: Model) => { of: string }[], model: Model) =>
  effect({ on: '' }, '', model).at(-1)?.of

/** What stands in the kernel and runs for the node, as lines that can be compared. */
function leftIn({ ns }: SoakNode): Map<string, number> {
  const read = (command: string) =>
    ns
      .run('sh', '-c', command)
      .split('\n')
      .map((line) => line.trim())
  const pids = read(`ip netns pids ${ns.name}`).filter(Boolean)
  const programs = pids.flatMap((pid) => {
    const { length } = pid
    const command = length > 0 ? commandOf(pid) : ''
    // The other build of an upgrade stands elsewhere.
    const told = command.replaceAll(/\S*\/build\//g, 'build/')
    return /sh -c|^ip|nsenter/.test(command) || command === '' ? [] : [`process ${told}`]
  })
  const pins = readdirSync(`/sys/fs/bpf/${ns.name}`, { recursive: true }).map(
    (path) => `pin ${String(path).replaceAll(/-[0-9a-f]{16}(?:[0-9a-f]{16})?$|\d+/g, '#')}`,
  )
  // Numbers of devices are others after a reboot.
  const lines = [
    ...read("ip -o link | sed 's/^[0-9]*: //; s/[:@].*//'"),
    ...read("ip route show table all | grep -v 'proto kernel' | sed 's/expires.*//'"),
    ...read('ip rule; ip -6 rule'),
    ...read("nft list table inet stratum | sed 's/comment .*//; s/counter packets.*bytes [0-9]*//'"),
    ...programs,
    ...pins,
  ]
  const counts = new Map<string, number>()
  for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1)
  return counts
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
  } catch {
    // It has ended since.
    return ''
  }
}

/** What is tidied up some seconds after the last change is waited for. */
async function nothingLeft(node: SoakNode, bare: ReadonlyMap<string, number>): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const more = [...leftIn(node)].flatMap(([line, many]) => (many > (bare.get(line) ?? 0) ? [line] : []))
    if (more.length === 0) return
    if (Date.now() > deadline) throw new Broken(`left once all was deleted:\n${more.join('\n')}`)
    await wait(500)
  }
}

/** The kernel that the figures are of. */
export const kernel = (): string => execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim()
