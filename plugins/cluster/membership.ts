/** Who is a member: each change is repeated while etcd finds its cluster unhealthy, and one is made at a time. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, conflict, notFound } from '../../core/errors.ts'
import { peerUrl } from './etcd/child.ts'
import { type Etcd, EtcdError, isUncertain } from './etcd/client.ts'
import { absent, type KeyValue, type Member, put, remove, removeAll, unchanged } from './etcd/words.ts'
import { noteFarewell } from './farewell.ts'
import { CODES, changeKey, keysAbout, keysTakenAlong, LIVE, MEMBERS, META, memberKey, partsOf } from './keys.ts'
import { memberRecordIn } from './reading.ts'
import { hasLeader, look, type MemberRecord, type View } from './standing.ts'

/** The paths of an area that is not there, of a member that is not reached and of a minority are answered alike (D102). */
export const unavailable = (why: string, cause?: unknown): ApiError =>
  new ApiError(503, 'NOT_AVAILABLE', `cluster service not available: ${why}`, {}, cause)

const PAUSE_MS = 250
/** etcd wants all members connected for five seconds before it changes who they are (strict-reconfig-check). */
const UNHEALTHY_MS = 15_000
/** Of the lock, should its holder not come back. One that is held for longer was taken without an end, which no agent does. */
const LOCK_S = 30
const LATE_MS = 2000
/** A member may be removed whatever it holds. */
const EXPEL_MS = 1000 * LOCK_S + 2 * LATE_MS
/** Another one each time an agent starts: one node runs one agent at a time. */
const AGENT = randomBytes(8).toString('hex')
/** How long another member that leads may take to hand over before it is removed. */
const YIELD_MS = 5000

const TOO_FEW =
  'too few of the other members are online: bring one back first, or run `stratumctl cluster recover` on one that is left, if the others are lost for good'
const isTooFew = (error: unknown) =>
  error instanceof EtcdError && /unhealthy cluster|not enough started/.test(error.message)

const isUnhealthy = (error: unknown) =>
  error instanceof EtcdError && /unhealthy cluster|too many learner/.test(error.message)

/** etcd makes a member's id of its URL and the second: that of one that was removed in this second is refused. */
const isOfThisSecond = (error: unknown) => error instanceof EtcdError && /member not found/.test(error.message)

async function whileUnhealthy<T>(work: () => Promise<T>, passes = isUnhealthy): Promise<T> {
  for (const end = performance.now() + UNHEALTHY_MS; ; await delay(PAUSE_MS)) {
    try {
      return await work()
    } catch (error) {
      if (passes(error) && performance.now() < end) continue
      throw isTooFew(error) ? unavailable(TOO_FEW, error) : asUnavailable(error)
    }
  }
}

/** gRPC's word for a call that was ended at this end: what waits for a majority, once none can be reached. */
const CANCELLED = 1
const NO_LEADER = 'the cluster has had no leader meanwhile; look at it (stratumctl cluster status) and try again'

export function asUnavailable(error: unknown): unknown {
  if (!(error instanceof EtcdError)) return error
  return unavailable(error.code === CANCELLED ? NO_LEADER : error.message, error)
}

export const rethrow = (error: unknown): never => {
  throw asUnavailable(error)
}

/** Runs `work` while no other member does what one may do at a time: a change of the membership, for one. */
export async function alone<T>(etcd: Etcd, self: string, work: () => Promise<T>, waitMs = UNHEALTHY_MS): Promise<T> {
  const holder = `${self} ${AGENT}`
  let lease: string | undefined
  try {
    let seen = { revision: 0, since: 0 }
    for (const end = performance.now() + waitMs; ; await delay(PAUSE_MS)) {
      const held = await etcd.get(META.lock)
      if (held === undefined) {
        lease = await etcd.grant(LOCK_S)
        if ((await etcd.txn([absent(META.lock)], [put(META.lock, holder, lease)])).succeeded) break
        await etcd.revoke(lease)
        continue
      }
      const now = performance.now()
      if (held.modRevision !== seen.revision) seen = { revision: held.modRevision, since: now }
      if (isLeft(held, self, holder) || now - seen.since > 1000 * LOCK_S + LATE_MS)
        await etcd.txn([unchanged(META.lock, held.modRevision)], [remove(META.lock)])
      else if (now > end) throw unavailable('another member is changing the cluster; try again')
    }
    return await work()
  } catch (error) {
    throw asUnavailable(error)
  } finally {
    if (lease !== undefined) await etcd.revoke(lease).catch(() => {})
  }
}

/** An agent of this node that was killed holds it no more: whoever asks is its successor. */
const isLeft = ({ value }: KeyValue, self: string, holder: string): boolean =>
  value !== holder && value.split(' ')[0] === self

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
  const isIn = memberOf(view, node) !== undefined
  if (!isIn || record === undefined || key !== undefined) {
    const next: MemberRecord = { since: now().toISOString(), ...record, address, ...(key !== undefined && { key }) }
    // First, so that whoever finds the learner knows whose it is. Nothing that a former member of this name has sent counts from then on.
    const first = isIn ? [] : [put(changeKey(node), JSON.stringify({ node }))]
    await etcd.txn([], [put(memberKey(node), JSON.stringify(next)), ...first])
  }
  if (isIn) return
  try {
    await whileUnhealthy(
      () => etcd.addLearner(peerUrl(address, peerPort)),
      (error) => isUnhealthy(error) || isOfThisSecond(error),
    )
  } catch (error) {
    if (record === undefined) await etcd.txn([], keysAbout(node).map(remove)).catch(() => {})
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

/** Said to whoever comes while another node is being taken in. */
export const NOT_COME_YET = 'was admitted and has not come yet'

/** etcd 3.4 has one learner at a time. */
function stillExpecting({ members }: View, error: unknown): unknown {
  const learner = members.find(({ raft }) => raft.isLearner)
  if (learner === undefined || !/too many learner/.test((error as Error).message)) return error
  return conflict('ADMISSION_PENDING', `${learner.id} ${NOT_COME_YET}: wait for it, or remove it`)
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
export function expel(etcd: Etcd, { self, now }: Place, node: string): Promise<void> {
  return alone(
    etcd,
    self,
    async () => {
      const view = await look(etcd)
      const member = memberOf(view, node)
      if (member === undefined && !view.records.has(node)) throw notFound('member', node)
      if (member) {
        if (view.status.leader === member.ID) await askToYield(etcd, self, member.ID)
        await whileUnhealthy(() => etcd.removeMember(member.ID))
      }
      const farewell = noteFarewell(node, view.records.get(node) ?? {}, now())
      // Of one that led and did not hand over, the members elect another first.
      await whileUnhealthy(() => etcd.txn([], [...keysAbout(node).map(remove), ...farewell]), isUncertain)
    },
    EXPEL_MS,
  )
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

/**
 * Notes that this node, of this key, has come: until then others have nothing to lose by its going. Also when it could not leave after all.
 * @throws ApiError 503 when somebody else has changed its record meanwhile
 */
export async function arrive(
  etcd: Etcd,
  { node, address, key: shown }: { node: string; address: string; key: string },
  now: Date,
): Promise<void> {
  const key = memberKey(node)
  const found = await etcd.get(key)
  const record: MemberRecord = (found && memberRecordIn(found.value)) ?? { address, since: now.toISOString() }
  if (record.joined && record.key === shown) return
  const next = { ...record, joined: true, key: shown }
  const ops = [put(key, JSON.stringify(next)), put(META.came, node)]
  const { succeeded } = await etcd.txn([unchanged(key, found?.modRevision ?? 0)], ops)
  if (!succeeded) throw unavailable("another member has changed this node's record; it is noted a moment later")
}

/** This node leaves; its etcd ends by itself then. */
export async function leave(etcd: Etcd, { self }: Place): Promise<void> {
  const { status, records } = await look(etcd)
  const record = records.get(self)
  await yieldTo(etcd)
  // Others may not have seen it, and another may have come after it: by this they know that they were not alone.
  const was = record?.joined ? [put(META.came, self)] : []
  await etcd.txn([], [...keysTakenAlong(self).map(remove), ...was])
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
  // One of them may have made codes for itself.
  await etcd.txn(
    [],
    [...[LIVE, CODES].map(removeAll), remove(META.came), ...others.flatMap((node) => keysAbout(node).map(remove))],
  )
}
