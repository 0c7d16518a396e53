/** Who is a member: each change is repeated while etcd finds its cluster unhealthy, and one is made at a time. */
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, conflict, notFound } from '../../core/errors.ts'
import { peerUrl } from './etcd/child.ts'
import { type Etcd, EtcdError } from './etcd/client.ts'
import { absent, type Member, put, remove, removeAll, unchanged } from './etcd/words.ts'
import { keysAbout, LIVE, MEMBERS, META, memberKey, partsOf } from './keys.ts'
import { hasLeader, look, type MemberRecord, type View } from './standing.ts'

/** The paths of an area that is not there, of a member that is not reached and of a minority are answered alike (D102). */
export const unavailable = (why: string, cause?: unknown): ApiError =>
  new ApiError(503, 'NOT_AVAILABLE', `cluster service not available: ${why}`, {}, cause)

const PAUSE_MS = 250
/** etcd wants all members connected for five seconds before it changes who they are (strict-reconfig-check). */
const UNHEALTHY_MS = 15_000
/** Of the lock, should its holder end. */
const LOCK_S = 30
/** How long another member that leads may take to hand over before it is removed. */
const YIELD_MS = 5000

const isUnhealthy = (error: unknown) =>
  error instanceof EtcdError && /unhealthy cluster|too many learner/.test(error.message)

/** etcd makes a member's id of its URL and the second: that of one that was removed in this second is refused. */
const isOfThisSecond = (error: unknown) => error instanceof EtcdError && /member not found/.test(error.message)

async function whileUnhealthy<T>(work: () => Promise<T>, passes = isUnhealthy): Promise<T> {
  for (const end = performance.now() + UNHEALTHY_MS; ; await delay(PAUSE_MS)) {
    try {
      return await work()
    } catch (error) {
      if (!passes(error) || performance.now() > end) throw asUnavailable(error)
    }
  }
}

export function asUnavailable(error: unknown): unknown {
  return error instanceof EtcdError ? unavailable(error.message, error) : error
}

export const rethrow = (error: unknown): never => {
  throw asUnavailable(error)
}

/** Runs `work` while no other member does what one may do at a time: a change of the membership, for one. */
export async function alone<T>(etcd: Etcd, self: string, work: () => Promise<T>): Promise<T> {
  const lease = await etcd.grant(LOCK_S).catch((error: unknown) => {
    throw asUnavailable(error)
  })
  try {
    for (const end = performance.now() + UNHEALTHY_MS; ; await delay(PAUSE_MS)) {
      if ((await etcd.txn([absent(META.lock)], [put(META.lock, self, lease)])).succeeded) break
      if (performance.now() > end) throw unavailable('another member is changing the cluster; try again')
    }
    return await work()
  } catch (error) {
    throw asUnavailable(error)
  } finally {
    await etcd.revoke(lease).catch(() => {})
  }
}

export interface Place {
  self: string
  peerPort: number
  now: () => Date
}

/**
 * Admits `node` at `address` as a learner, which counts in no majority. The same again changes nothing.
 * @throws ApiError 409 when the node has another address, or somebody else has this one
 */
export function admit(etcd: Etcd, place: Place, node: string, address: string): Promise<void> {
  return alone(etcd, place.self, async () => takeIn(etcd, place, await look(etcd), { node, address }))
}

interface Candidate {
  node: string
  address: string
  /** See MemberRecord. */
  key?: string
}

async function takeIn(etcd: Etcd, { peerPort, now }: Place, view: View, candidate: Candidate): Promise<void> {
  mustFit(view, candidate)
  const { node, address, key } = candidate
  const record = view.records.get(node)
  if (record === undefined || key !== undefined) {
    const next: MemberRecord = { since: now().toISOString(), ...record, address, ...(key !== undefined && { key }) }
    // First, so that whoever finds the learner knows whose it is.
    await etcd.txn([], [put(memberKey(node), JSON.stringify(next))])
  }
  if (memberOf(view, node)) return
  try {
    await whileUnhealthy(
      () => etcd.addLearner(peerUrl(address, peerPort)),
      (error) => isUnhealthy(error) || isOfThisSecond(error),
    )
  } catch (error) {
    if (record === undefined) await etcd.txn([], [remove(memberKey(node))]).catch(() => {})
    throw stillExpecting(view, error)
  }
}

/** @throws ApiError 409 */
function mustFit({ records }: View, { node, address }: Candidate): void {
  const record = records.get(node)
  if (record !== undefined && record.address !== address) {
    throw conflict('MEMBER_EXISTS', `${node} is a member at ${record.address}: remove it first`)
  }
  const other = [...records].find(([id, { address: taken }]) => id !== node && taken === address)
  if (other) throw conflict('MEMBER_EXISTS', `${address} is the address of member ${other[0]}`)
}

/** etcd 3.4 has one learner at a time. */
function stillExpecting({ members }: View, error: unknown): unknown {
  const learner = members.find(({ raft }) => raft.isLearner)
  if (learner === undefined || !/too many learner/.test((error as Error).message)) return error
  return conflict('ADMISSION_PENDING', `${learner.id} was admitted and has not come yet: wait for it, or remove it`)
}

/**
 * Before `node` comes with an empty store: a learner that has run before is admitted anew, because etcd counts on what a
 * member has once acknowledged. @throws ApiError 409 when it is a full member
 */
export function renew(etcd: Etcd, place: Place, candidate: Candidate): Promise<void> {
  const { node } = candidate
  return alone(etcd, place.self, async () => {
    const view = await look(etcd)
    const member = memberOf(view, node)
    if (member && !member.isLearner) throw conflict('MEMBER_EXISTS', `${node} is a member already: remove it first`)
    mustFit(view, candidate)
    if (member?.name) await whileUnhealthy(() => etcd.removeMember(member.ID))
    await takeIn(etcd, place, member?.name ? await look(etcd) : view, candidate)
  })
}

/** `<node>=<peer URL>,…` of all, for the member that comes. */
export async function initialCluster(etcd: Etcd): Promise<string> {
  const { members } = await look(etcd)
  return members.map(({ id, raft }) => `${id}=${raft.peerURLs[0]}`).join(',')
}

/** Removes a member, which need not be reachable; one that leads is asked to hand over first. @throws ApiError 404 */
export function expel(etcd: Etcd, { self }: Place, node: string): Promise<void> {
  return alone(etcd, self, async () => {
    const view = await look(etcd)
    const member = memberOf(view, node)
    if (member === undefined && !view.records.has(node)) throw notFound('member', node)
    if (member) {
      if (view.status.leader === member.ID) await askToYield(etcd, self, member.ID)
      await whileUnhealthy(() => etcd.removeMember(member.ID))
    }
    await etcd.txn([], keysAbout(node).map(remove))
  })
}

/** Only a leader can move leadership, and its etcd listens to its own agent alone. Should it not answer, there is an election. */
async function askToYield(etcd: Etcd, self: string, leader: string): Promise<void> {
  await etcd.txn([], [put(META.yield, self, await etcd.grant((2 * YIELD_MS) / 1000))])
  for (const end = performance.now() + YIELD_MS; performance.now() < end; await delay(PAUSE_MS / 5)) {
    const status = await etcd.status()
    if (hasLeader(status) && status.leader !== leader) break
  }
  await etcd.txn([], [remove(META.yield)])
}

/** Hands leadership to `node`, or to any other voter. False: this node does not lead, or there is nobody. */
export async function yieldTo(etcd: Etcd, node?: string): Promise<boolean> {
  const { status, members, live } = await look(etcd)
  if (status.leader !== status.header.member_id) return false
  const others = members.filter(({ raft }) => raft.ID !== status.leader && !raft.isLearner)
  const heir = others.find(({ id }) => id === node) ?? others.find(({ id }) => live.has(id))
  if (heir === undefined) return false
  await etcd.moveLeader(heir.raft.ID)
  return true
}

/** Makes voters of learners that have caught up; etcd refuses while they have not. */
export async function promoteReady(etcd: Etcd, { members }: View): Promise<void> {
  for (const { raft } of members) if (raft.isLearner && raft.name !== '') await etcd.promote(raft.ID).catch(() => {})
}

export const memberOf = ({ members }: View, node: string): Member | undefined =>
  members.find(({ id }) => id === node)?.raft

/** Notes that this node, of this key, has come: until then others have nothing to lose by its going. Also when it could not leave after all. */
export async function arrive(
  etcd: Etcd,
  { node, address, key: shown }: { node: string; address: string; key: string },
  now: Date,
): Promise<void> {
  const key = memberKey(node)
  const found = await etcd.get(key)
  const record: MemberRecord = found ? JSON.parse(found.value) : { address, since: now.toISOString() }
  if (record.joined && record.key === shown) return
  const next = { ...record, joined: true, key: shown }
  await etcd.txn([unchanged(key, found?.modRevision ?? 0)], [put(key, JSON.stringify(next)), put(META.came, node)])
}

/** This node leaves; its etcd ends by itself then. */
export async function leave(etcd: Etcd, { self }: Place): Promise<void> {
  const { status, records } = await look(etcd)
  const record = records.get(self)
  await yieldTo(etcd)
  await etcd.txn([], keysAbout(self).map(remove))
  try {
    await whileUnhealthy(() => etcd.removeMember(status.header.member_id))
  } catch (error) {
    if (record) await etcd.txn([], [put(memberKey(self), JSON.stringify(record))]).catch(() => {})
    throw error
  }
}

/** Forgets what etcd still says of members that it has forgotten, and that one of them came last. */
export async function forgetOthers(etcd: Etcd, self: string): Promise<void> {
  const { kvs } = await etcd.range(MEMBERS)
  const others = kvs.map(({ key }) => partsOf(key, MEMBERS)[0] ?? '').filter((node) => node !== self)
  await etcd.txn([], [removeAll(LIVE), remove(META.came), ...others.flatMap((node) => keysAbout(node).map(remove))])
}
