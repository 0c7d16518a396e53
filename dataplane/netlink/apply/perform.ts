/**
 * Carries out moves in the order in which things rest on each other: links, members, addresses, routes, policy rules,
 * neighbours, forwarding; what is removed goes first, the other way round. Links are removed last, so that what cannot be put back
 * whole is touched when all else is done, unless a new link may need the name or the number of an old one.
 */
import { linksOf, type NetlinkEntry, type PolicyEntry } from '../entries.ts'
import type { Neighbour } from '../neighbour.ts'
import { addsAddress, removesAddresses } from './address.ts'
import { addsFdb, removesFdb } from './fdb.ts'
import { removesLink, setsLink } from './link.ts'
import { joins, leaves } from './member.ts'
import { askFor, removesNeighbour, setsNeighbour } from './neighbour.ts'
import { addsPolicies, removesPolicies } from './policy.ts'
import type { Refused } from './refusal.ts'
import { addsRoute, removesRoute, replacesRoute } from './route.ts'
import type { Scene } from './scene.ts'
import { carryOut, type Step } from './steps.ts'

type Kind = NetlinkEntry['kind']
type EntryOf<K extends Kind> = Extract<NetlinkEntry, { kind: K }>

/** From what the kernel holds to what it shall hold; both of one kind. */
export interface Move<E extends NetlinkEntry = NetlinkEntry> {
  before?: E
  after?: E
}

export interface Order {
  scene: Scene
  moves: readonly Move[]
  /** Policy rules that the kernel holds. */
  policies(): readonly PolicyEntry[]
  /** End with the first phase that has a refusal. */
  strict: boolean
}

/** Resolves to what was refused; what was done is in the scene's journal. Rejects with UncertainOutcome. */
export async function perform(order: Order): Promise<Refused[]> {
  const { moves, strict } = order
  const swap = of(moves, 'link').some(({ before, after }) => after && before === undefined)
  const neighbours = await ask(order)
  const phases = [
    () => removeFdb(order),
    () => removeNeighbours(order, neighbours),
    () => removePolicies(order),
    () => removeRoutes(order),
    () => removeAddresses(order),
    () =>
      run(
        order,
        gone(of(moves, 'member')).map((entry) => leaves(order.scene, entry)),
      ),
    ...(swap ? [() => removeLinks(order)] : []),
    () => setLinks(order),
    () =>
      run(
        order,
        set(of(moves, 'member')).map(({ before, after }) => joins(order.scene, after, before)),
      ),
    () =>
      run(
        order,
        set(of(moves, 'address')).map(({ after }) => addsAddress(order.scene, after)),
      ),
    // A gateway may be within reach by another route only.
    () => setRoutes(order, ({ gateway }) => gateway === undefined),
    () => setRoutes(order, ({ gateway }) => gateway !== undefined),
    () => addPolicies(order),
    () =>
      run(
        order,
        set(of(moves, 'neighbour')).map(({ after }) => setsNeighbour(order.scene, after, neighbours.get(after))),
      ),
    () =>
      run(
        order,
        set(of(moves, 'fdb')).map(({ after }) => addsFdb(order.scene, after)),
      ),
    ...(swap ? [] : [() => removeLinks(order)]),
  ]
  const refused: Refused[] = []
  for (const phase of phases) {
    refused.push(...(await phase()))
    if (strict && refused.length > 0) break
  }
  return refused
}

/** What the moves need to know: the links they name, and the neighbours that stand at their places. */
async function ask({ scene, moves }: Order) {
  await askLinks(scene, moves)
  const neighbours = of(moves, 'neighbour').flatMap(({ before, after }) => after ?? before ?? [])
  return askFor(scene, neighbours)
}

function askLinks(scene: Scene, moves: readonly Move[]): Promise<void> {
  return scene.ask(
    moves.flatMap(({ before, after }) => [before, after].flatMap((entry) => (entry ? linksOf(entry) : []))),
  )
}

type Neighbours = ReadonlyMap<EntryOf<'neighbour'>, Neighbour>

function removeNeighbours(order: Order, present: Neighbours): Promise<Refused[]> {
  const entries = gone(of(order.moves, 'neighbour'))
  return run(
    order,
    entries.map((entry) => removesNeighbour(order.scene, entry, present.get(entry))),
  )
}

async function removeFdb(order: Order): Promise<Refused[]> {
  return run(order, await removesFdb(order.scene, gone(of(order.moves, 'fdb'))))
}

function removePolicies(order: Order): Promise<Refused[]> {
  return run(
    order,
    removesPolicies(order.scene, gone(of(order.moves, 'policy')), () => untouched(order)),
  )
}

function addPolicies(order: Order): Promise<Refused[]> {
  const entries = set(of(order.moves, 'policy')).map(({ after }) => after)
  return run(
    order,
    addsPolicies(order.scene, entries, () => untouched(order)),
  )
}

/** Policy rules in the kernel that none of the moves is about. */
function untouched({ moves, policies }: Order): PolicyEntry[] {
  const keys = new Set(moves.map(({ before, after }) => (after ?? before)?.key))
  return policies().filter(({ key }) => !keys.has(key))
}

function removeRoutes(order: Order): Promise<Refused[]> {
  return run(
    order,
    gone(of(order.moves, 'route')).map((entry) => removesRoute(order.scene, entry)),
  )
}

/** Changed ones are removed too: in place, the kernel would not look whose an address is. */
async function removeAddresses(order: Order): Promise<Refused[]> {
  const entries = of(order.moves, 'address').flatMap(({ before }) => before ?? [])
  return run(order, await removesAddresses(order.scene, entries))
}

async function removeLinks({ scene, moves, strict }: Order): Promise<Refused[]> {
  const refused: Refused[] = []
  for (const entry of gone(of(moves, 'link'))) {
    const failed = await removesLink(scene, entry)
    if (failed) refused.push(failed)
    if (failed && strict) break
  }
  return refused
}

async function setLinks({ scene, moves, strict }: Order): Promise<Refused[]> {
  const refused: Refused[] = []
  const links = inOrder(set(of(moves, 'link')))
  if (links.length === 0) return []
  // Links that were just removed may be made anew.
  await known(scene, moves)
  for (const { before, after } of links) {
    const failed = await setsLink(scene, after, before)
    if (failed) refused.push(failed)
    if (failed && strict) return refused
  }
  await known(scene, moves)
  return refused
}

async function known(scene: Scene, moves: readonly Move[]): Promise<void> {
  scene.forget()
  await askLinks(scene, moves)
}

function setRoutes(order: Order, which: (entry: EntryOf<'route'>) => boolean): Promise<Refused[]> {
  const moves = set(of(order.moves, 'route')).filter(({ after }) => which(after))
  return run(
    order,
    moves.map(({ before, after }) =>
      before ? replacesRoute(order.scene, after, before) : addsRoute(order.scene, after),
    ),
  )
}

async function run({ scene, strict }: Order, steps: readonly (Step | Refused | undefined)[]): Promise<Refused[]> {
  const refused = steps.filter((step): step is Refused => step !== undefined && 'code' in step)
  if (strict && refused.length > 0) return refused
  const open = steps.filter((step): step is Step => step !== undefined && 'rounds' in step)
  return [...refused, ...(await carryOut(scene, open))]
}

function of<K extends Kind>(moves: readonly Move[], kind: K): Move<EntryOf<K>>[] {
  // The filter has looked at the kind, which both sides share.
  return moves.filter(({ before, after }) => (after ?? before)?.kind === kind) as Move<EntryOf<K>>[]
}

function gone<E extends NetlinkEntry>(moves: readonly Move<E>[]): E[] {
  return moves.flatMap(({ before, after }) => (before && after === undefined ? [before] : []))
}

function set<E extends NetlinkEntry>(moves: readonly Move<E>[]): { before?: E; after: E }[] {
  return moves.flatMap(({ before, after }) => (after ? [{ after, ...(before && { before }) }] : []))
}

/** Links after those that they need, and after those that needed them before: these let go first. */
function inOrder<M extends { before?: EntryOf<'link'>; after: EntryOf<'link'> }>(moves: readonly M[]): M[] {
  const byName = new Map(moves.map((move) => [move.after.name, move]))
  const done = new Set<M>()
  const visit = (move: M, path: readonly M[]): void => {
    if (done.has(move) || path.includes(move)) return
    const needed = linksOf(move.after).flatMap((name) => byName.get(name) ?? [])
    const leaving = moves.filter(({ before }) => move.before && before && linksOf(before).includes(move.before.name))
    for (const earlier of [...needed, ...leaving]) visit(earlier, [...path, move])
    done.add(move)
  }
  for (const move of moves) visit(move, [])
  return [...done]
}
