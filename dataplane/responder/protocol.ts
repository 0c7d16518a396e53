/**
 * What the agent and the responder say to each other over the unix socket: one JSON document a line.
 *
 * The responder greets with `hello`, then answers requests in their order. A batch is announced in portions (`stage`) and
 * comes into force as one with `commit`. Lease news come unasked and again with every connection until they are acknowledged.
 */
import { hash } from 'node:crypto'
import type { ResponderEntry } from './entries.ts'
import { responderFingerprint } from './entries.ts'

/** Argument behind the path: end soon, also when nobody says so. */
export const TRIAL = 'trial'

export interface ResponderPassage {
  before?: ResponderEntry
  after?: ResponderEntry
}

export type Request =
  | { id: number; do: 'stage'; passages: ResponderPassage[] }
  | { id: number; do: 'commit'; patient: boolean }
  | { id: number; do: 'digest' }
  /** Answered at once, whatever else is being worked on. */
  | { id: number; do: 'ping' }
  | { id: number; do: 'list'; after: string }
  | { id: number; do: 'stop' }
/** Nobody waits for an answer to it. */
export interface Acknowledgement {
  do: 'leases'
  upTo: number
}

export interface Hello {
  hello: { build: string }
}
/** `refused`: nothing of the batch is in force. `failed`: it is not known what is. */
export type Answer = { id: number } & (
  | { ok: Reply }
  | { refused: string; failed?: undefined }
  | { failed: string; refused?: undefined }
)
export interface Reply {
  digest?: string
  /** Number of entries after a commit. */
  size?: number
  entries?: ResponderEntry[]
}

/** A listener that shall be open and cannot be, and why. */
export interface Waiting {
  key: string
  reason: string
}
/** All that wait; sent whenever that has changed. */
export interface StillWaiting {
  waiting: Waiting[]
}

/** A lease that began, was renewed (`active`), was given back by its client or lost its binding (`revoked`). */
export interface LeaseNews {
  /** Number in the order of what happened. */
  seq: number
  net: number
  address: string
  mac: string
  hostname: string
  state: 'active' | 'revoked'
  /** Unix time, seconds. */
  expiresAt: number
  /** Unix time, milliseconds; of two news of an address the newer has the larger. */
  at: number
  /** Revoked because this MAC is bound no more, and not by its client. */
  unbound?: true
}
export type LeaseEvent = Omit<LeaseNews, 'seq'>
export interface Told {
  leases: LeaseNews[]
}
/** Something that the operator should know. */
export interface Problem {
  problem: string
}

export type FromResponder = Hello | Answer | Told | Problem | StillWaiting

/** Entries in one line: parsing a line must not keep the event loop from packets. */
export const PORTION = 250

/** Sum of entries that does not depend on their order, to be kept up entry by entry: adding one twice takes it out again. */
export interface Sum {
  flip(entry: ResponderEntry): void
  text(): string
}

export function openSum(): Sum {
  const sum = Buffer.alloc(16)
  return {
    flip(entry) {
      // Bytes as characters: making a buffer would take as long as the hash.
      const digest = hash('sha256', responderFingerprint(entry), 'binary')
      for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] ?? 0) ^ digest.charCodeAt(at)
    },
    text: () => sum.toString('hex'),
  }
}
