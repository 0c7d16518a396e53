/** What this node knows of its cluster: asked of the own etcd, which answers without a majority too. */
import type { Etcd } from './etcd/client.ts'
import type { Member as EtcdMember, KeyValue, Status } from './etcd/words.ts'
import { LIVE, MEMBERS, META, partsOf, TRUST } from './keys.ts'
import { formerIn, memberRecordIn, trustRecordIn } from './reading.ts'
import type { MemberRow } from './tables.ts'
import type { Known, TrustRecord } from './trusting.ts'

export interface Peer {
  id: string
  address: string
  voter: boolean
  /** Of its key (`fingerprintOf`); undefined: nobody can show that it is this member. */
  key?: string | undefined
  online: boolean
  lastSeen: Date | undefined
  /** Absent: it runs an earlier version, or etcd says nothing now. */
  trust?: TrustRecord | undefined
}

export interface Standing {
  cluster: string
  /** A majority can be reached, so changes can be made. */
  writable: boolean
  /** Node id; '' while there is none. */
  leader: string
  isLeader: boolean
  /** What falls to the leader falls to this node: it leads, or it is the first of those that are there while the leader's agent is away. */
  acts: boolean
  /** All, this node included. */
  members: readonly Peer[]
  /** See `Known`. */
  former?: string | undefined
}

/** What all members trust, as this node knows it. */
export const knownOf = ({ members, former }: Standing): Known => ({ members, former })

/** A member's record, below `/m/`. */
export interface MemberRecord {
  address: string
  /** When it was admitted; ISO 8601. */
  since: string
  /** It has come and taken the rows over. */
  joined?: boolean
  /** Of its key (`fingerprintOf`); none until it asks for a certificate. */
  key?: string
}

/** What etcd says of its members. */
export interface View {
  status: Status
  /** Those of etcd with their node ids. */
  members: { id: string; raft: EtcdMember }[]
  records: ReadonlyMap<string, MemberRecord>
  live: ReadonlySet<string>
  /** Who asks the leader to hand over. */
  yieldTo: string | undefined
  /** Who came last. */
  came: string | undefined
  trust: ReadonlyMap<string, TrustRecord>
  former: string | undefined
}

/** @throws EtcdError when the own etcd does not answer */
export async function look(etcd: Etcd): Promise<View> {
  const local = { local: true, ms: 1000 }
  const [status, raft, records, live, yieldTo, came, trust, former] = await Promise.all([
    etcd.status(),
    etcd.members(),
    etcd.range(MEMBERS, local),
    etcd.range(LIVE, local),
    etcd.get(META.yield, local),
    etcd.get(META.came, local),
    etcd.range(TRUST, local),
    etcd.get(META.ca, local),
  ])
  const known = readBelow(records.kvs, MEMBERS, memberRecordIn)
  return {
    status,
    members: named(raft, known),
    records: known,
    live: new Set(live.kvs.map((kv) => nameOf(kv, LIVE))),
    yieldTo: yieldTo?.value,
    came: came?.value,
    trust: readBelow(trust.kvs, TRUST, trustRecordIn),
    former: formerIn(former?.value),
  }
}

const nameOf = ({ key }: KeyValue, prefix: string): string => partsOf(key, prefix)[0] ?? ''

const readBelow = <T>(kvs: readonly KeyValue[], prefix: string, read: (text: string) => T | undefined) =>
  new Map(
    kvs.flatMap((kv): [string, T][] => {
      const found = read(kv.value)
      return found === undefined ? [] : [[nameOf(kv, prefix), found]]
    }),
  )

/**
 * The members of etcd with their node ids, each another one. A member calls itself by what name it likes, so the one with the address of the
 * record has it; who is left without any goes by the number that etcd gives it, by which it can be seen and removed.
 */
export function named(raft: readonly EtcdMember[], records: ReadonlyMap<string, MemberRecord>): View['members'] {
  const ids = new Map<string, EtcdMember>()
  const isAt = ({ name, peerURLs }: EtcdMember) => peerURLs.some((url) => hostIn(url) === records.get(name)?.address)
  for (const member of [...raft.filter(isAt), ...raft.filter((member) => !isAt(member))]) {
    const own = isAt(member) ? member.name : nodeAt(member, records) || member.name
    ids.set(own === '' || ids.has(own) ? member.ID : own, member)
  }
  return [...ids].map(([id, member]) => ({ id, raft: member }))
}

/** A member that has never run has no name yet. */
function nodeAt({ peerURLs }: EtcdMember, records: ReadonlyMap<string, MemberRecord>): string {
  for (const [node, { address }] of records) if (peerURLs.some((url) => hostIn(url) === address)) return node
  return ''
}

/** The address in a peer URL. */
export const hostIn = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '')

export const hasLeader = ({ leader, errors }: Pick<Status, 'leader' | 'errors'>): boolean =>
  leader !== '0' && !errors.some((error) => error.includes('no leader'))

/** `seen`: when each was online last. A node without a leader hears nothing of the others. */
export function standingOf(self: string, cluster: string, view: View, seen: ReadonlyMap<string, Date>): Standing {
  const { status, members, live } = view
  const led = hasLeader(status)
  const leader = led ? (members.find(({ raft }) => raft.ID === status.leader)?.id ?? '') : ''
  const there = members.filter(({ id, raft }) => !raft.isLearner && (id === self || live.has(id))).map(({ id }) => id)
  const acting = there.includes(leader) ? leader : there.sort()[0]
  return {
    cluster,
    writable: led && !status.isLearner,
    leader,
    isLeader: leader === self,
    acts: led && acting === self,
    former: view.former,
    members: members
      .filter(({ id }) => id !== '')
      .map(({ id, raft }) => ({
        id,
        address: view.records.get(id)?.address ?? hostIn(raft.peerURLs[0] ?? 'http://[::]'),
        voter: !raft.isLearner,
        key: view.records.get(id)?.key,
        online: id === self || (led && live.has(id)),
        lastSeen: seen.get(id),
        trust: view.trust.get(id),
      }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
  }
}

/** While the own etcd says nothing. */
export function standingFrom(self: string, cluster: string, address: string, rows: readonly MemberRow[]): Standing {
  const others = rows.map(({ node, address, voter, lastSeen }) => ({
    id: node,
    address,
    voter,
    online: false,
    lastSeen: lastSeen === null ? undefined : new Date(lastSeen),
  }))
  const own = { id: self, address, voter: true, online: true, lastSeen: undefined }
  const members = [own, ...others].sort((a, b) => (a.id < b.id ? -1 : 1))
  return { cluster, writable: false, leader: '', isLeader: false, acts: false, members }
}
