/** How members of the model end and start again, come and go, and how one goes on alone. */
import { type Op, put, remove, removeAll } from '../../plugins/cluster/etcd/words.ts'
import { CHANGE, changeKey, META, ROWS, rowKey, SERIAL, UNIQUE, uniqueKeys } from '../../plugins/cluster/keys.ts'
import * as member from './member.ts'
import { Clash, collectionOf } from './rows.ts'
import { hasCome, type Node, processOf, type Step, type World } from './steps.ts'

export function* going(world: World, node: Node, count: (what: string) => void): Generator<Step> {
  const { random, ending } = world
  if (node.away) {
    yield [ending ? 2 : 0.3, () => come(world, node)]
    if (!ending) yield [0.1, () => forget(world, node)]
    return
  }
  if (node.leaving) yield* leaving(node, count)
  if (ending) return
  const isInForce = node.job?.flight.answer?.succeeded === true
  const kill = () => {
    count(isInForce ? 'killed before its commit' : 'killed')
    start(world, node, random() < 0.7)
  }
  yield [isInForce ? 0.5 : 0.1, kill]
  const expel = () => {
    forget(world, node)
    go(node)
    count('removed')
  }
  yield [0.03, expel]
  const leave = () => {
    world.etcd.carryOut({ compares: [], ops: world.rules.keysTakenAlong(node.id).map((key) => remove(key)) })
    node.leaving = true
  }
  if (!node.leaving && hasCome(node)) yield [0.02, leave]
  if (hasCome(node) && !node.job && !node.anew && !node.loading) yield [0.01, () => goOnAlone(world, node, count)]
}

/** Until its etcd is gone it goes on as ever. */
function* leaving(node: Node, count: (what: string) => void): Generator<Step> {
  const stay = () => {
    node.leaving = false
    count('could not leave')
  }
  yield [0.5, stay]
  const leave = () => {
    go(node)
    count('left')
  }
  yield [0.5, leave]
}

/** What is on its way to etcd from any process that it had. */
function sentBy({ flying }: World, { id }: Node): member.Flight[] {
  const last = ({ transaction }: member.Flight) => transaction.compares.at(-1)?.key.toString()
  return [...flying].filter((flight) => last(flight) === changeKey(id))
}

/** Its process begins anew. `fenced`: otherwise it is one that asks nothing at its start. */
function start(world: World, node: Node, fenced: boolean): void {
  Object.assign(node, processOf(node.store), { anew: node.anew || node.loading !== undefined })
  const changed = member.changedIn(node.store, node.id)
  if (fenced && hasCome(node)) node.doubts = [{ fence: { node: node.id, changed }, of: sentBy(world, node) }]
}

/** What it has sent cannot come into force any more. */
function shutOut(world: World, node: Node, op: Op): void {
  world.etcd.carryOut({ compares: [], ops: [op] })
  for (const flight of sentBy(world, node)) flight.shutOut = true
}

/** As those who stay do at a removal, or some time after it has left. */
const forget = (world: World, node: Node) => shutOut(world, node, remove(changeKey(node.id)))

function go(node: Node): void {
  node.store = member.emptyStore()
  Object.assign(node, processOf(node.store), { away: true, leaving: false })
}

/** With nothing, and takes all rows over. */
function come(world: World, node: Node): void {
  shutOut(world, node, put(changeKey(node.id), '{}'))
  Object.assign(node, processOf(node.store), { away: false, etcd: world.etcd.revision, anew: true })
}

/** The others are gone for good. Its etcd forgets the end of what it had, and is filled with what the store has then. */
function goOnAlone(world: World, node: Node, count: (what: string) => void): void {
  const { etcd, flying, random, nodes } = world
  flying.clear()
  for (const other of nodes) if (other !== node) go(other)
  etcd.forgetAfter(Math.max(1, node.etcd - Math.floor(random() * 4)))
  const { revision } = etcd
  if (revision > node.store.reached) takeWhatIsBeyond(world, node, revision, count)
  const store = filled(world, node)
  Object.assign(node, { store, ...processOf(store), etcd: etcd.revision, leaving: false })
  count('went on alone')
}

/** By the watch; where it cannot tell, or the rows cannot come, all at once. */
function takeWhatIsBeyond({ etcd, rules }: World, node: Node, revision: number, count: (what: string) => void): void {
  const { id, store } = node
  try {
    if (etcd.compacted > store.reached) throw new Clash()
    const revisions = Array.from({ length: revision - store.reached }, (_, at) => etcd.at(store.reached + 1 + at))
    node.store = member.adopted(rules, id, store, revisions)
    const lost = [...store.revisions].find(([key, of]) => of > revision && node.store.revisions.get(key) !== of)
    if (lost) throw new Error(`${id} has lost ${lost[0]} of ${lost[1]}, which it had acknowledged`)
  } catch (error) {
    if (!(error instanceof Clash)) throw error
    const keys = etcd.state(revision)
    node.store = member.loaded(rules, id, store, { revision, before: revision, keys }) ?? store
    count('took all over to go on alone')
  }
}

/** As `importRows` and what follows on it. */
function filled({ etcd }: World, { id, store }: Node): member.Store {
  const carry = (ops: Op[]) => etcd.carryOut({ compares: [], ops }).revision
  carry([remove(META.imported), ...[ROWS, UNIQUE, SERIAL, CHANGE].map(removeAll)])
  const revisions = new Map([[changeKey(id), carry([put(changeKey(id), '{}')])]])
  for (const [key, row] of store.rows) {
    const collection = collectionOf(key)
    const shares = uniqueKeys(collection, row).map((share) => put(share, key))
    revisions.set(rowKey(collection, row), carry([put(key, JSON.stringify(row)), ...shares]))
  }
  return { rows: new Map(store.rows), revisions, own: new Set(), reached: carry([put(META.imported, id)]) }
}
