/** Which authorities a member is to trust, and what is to be done for it. Pure. */
import { fingerprint256, fingerprintsOf } from './authority.ts'

/** What a member tells of its authority and of those that it trusts, below `/t/`. */
export interface TrustRecord {
  /** PEM: its own. */
  authority: string
  /** Fingerprints of those that its etcd goes by, sorted. */
  trusts: string[]
  /** Fingerprint of the one that signed the certificate which it shows. */
  shows: string
}

/** Of a member that shows a certificate of its own authority. */
export const recordOf = (authority: string, trusts: readonly string[]): TrustRecord => ({
  authority,
  trusts: fingerprintsOf(trusts),
  shows: fingerprint256(authority),
})

export interface Known {
  /** All members; of one that runs an earlier version there is no record. */
  members: readonly { id: string; online: boolean; trust?: TrustRecord | undefined }[]
  /** PEM of an authority that all members had, from the time before each had its own. */
  former: string | undefined
}

/** Whether the former authority is still needed: a member shows its certificate, or would sign by it. */
export const needsFormer = ({ members, former }: Known): boolean =>
  former !== undefined && members.some(({ trust }) => trust === undefined || trust.shows === fingerprint256(former))

/** PEM of the authorities that each member is to trust: those of the members. */
export function wanted(known: Known): string[] {
  const own = known.members.flatMap(({ trust }) => (trust === undefined ? [] : [trust.authority]))
  return needsFormer(known) && known.former !== undefined ? [...own, known.former] : own
}

/**
 * Members whose etcd does not go by just those. One that is away is among them until it is back, and one that runs an earlier version until it
 * is upgraded.
 */
export function behind(known: Known): string[] {
  const target = fingerprintsOf(wanted(known)).join()
  const isBehind = ({ trust }: Known['members'][number]) =>
    trust === undefined ? known.former !== undefined : trust.trusts.join() !== target
  return known.members.filter(isBehind).map(({ id }) => id)
}

/** An authority that this node did not go by before, or has given up, is no former one, whoever says so. */
const heldBy = (known: Known, own: TrustRecord): Known =>
  known.former === undefined || own.trusts.includes(fingerprint256(known.former))
    ? known
    : { ...known, former: undefined }

/** Whether all members trust the authority of `id`. */
export function isTrusted(
  { members }: Known,
  id: string,
  among: (member: Known['members'][number]) => boolean = () => true,
): boolean {
  const authority = members.find((one) => one.id === id)?.trust?.authority
  if (authority === undefined) return false
  const fingerprint = fingerprint256(authority)
  return members.filter(among).every(({ trust }) => trust?.trusts.includes(fingerprint) === true)
}

export type Step =
  /** To tell the others what this node has. */
  | { do: 'tell'; record: TrustRecord }
  /** To have etcd go by other authorities, for which it is started anew. */
  | { do: 'trust'; authorities: string[] }
  /** To show a certificate of the own authority: all trust it by now. */
  | { do: 'show' }
  /** To give up what is left of the former authority. */
  | { do: 'forget' }

/**
 * What a member does next; undefined: nothing. Whatever it was about to do when its agent died, this tells it anew. `own`: what is so
 * here now, as it would be told. An authority that is no longer wanted goes only when no member shows a certificate of it.
 */
export function nextStep(known: Known, self: string, own: TrustRecord, hasFormerKey: boolean): Step | undefined {
  const told = known.members.find(({ id }) => id === self)
  // It is no member, or not yet.
  if (told === undefined) return undefined
  if (JSON.stringify(told.trust) !== JSON.stringify(own)) return { do: 'tell', record: own }
  const authorities = wanted(heldBy(known, own))
  if (fingerprintsOf(authorities).join() !== own.trusts.join()) return { do: 'trust', authorities }
  if (own.shows !== fingerprint256(own.authority)) return isTrusted(known, self) ? { do: 'show' } : undefined
  return !needsFormer(known) && (hasFormerKey || known.former !== undefined) ? { do: 'forget' } : undefined
}
