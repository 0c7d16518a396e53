/** Requests and answers of etcd's API v3 (rpc.proto) as proto-loader shapes them: 64-bit numbers are decimal text. */

export interface KeyValue {
  key: string
  value: string
  /** Revisions fit a number for longer than any etcd lives. */
  createRevision: number
  modRevision: number
}

export interface Member {
  ID: string
  /** Node id; empty until the member has run for the first time. */
  name: string
  peerURLs: string[]
  isLearner: boolean
}

export interface Status {
  header: { member_id: string; revision: string }
  dbSize: string
  dbSizeInUse: string
  /** Member id; `0` while there is none. */
  leader: string
  errors: string[]
  isLearner: boolean
}

export type Compare = {
  target: 'CREATE' | 'MOD'
  result: 'EQUAL' | 'GREATER' | 'NOT_EQUAL' | 'LESS'
  key: Buffer
  range_end?: Buffer
} & ({ create_revision: number } | { mod_revision: number })

export type Op =
  | { request_put: { key: Buffer; value: Buffer; lease?: string } }
  | { request_delete_range: { key: Buffer; range_end?: Buffer } }

/** Nobody has the key. */
export const absent = (key: string): Compare => ({
  target: 'CREATE',
  result: 'EQUAL',
  key: Buffer.from(key),
  create_revision: 0,
})
/** Somebody has made the key. */
export const present = (key: string): Compare => ({
  target: 'CREATE',
  result: 'GREATER',
  key: Buffer.from(key),
  create_revision: 0,
})
/** The key is as it was at `revision`; 0: it is not there. */
export const unchanged = (key: string, revision: number): Compare => ({
  target: 'MOD',
  result: 'EQUAL',
  key: Buffer.from(key),
  mod_revision: revision,
})

/** No key that begins with `prefix` was changed after `revision`. */
export const allUntil = (prefix: string, revision: number): Compare => ({
  target: 'MOD',
  result: 'LESS',
  key: Buffer.from(prefix),
  range_end: prefixEnd(prefix),
  mod_revision: revision + 1,
})

/** With a lease, the key goes when that ends. */
export const put = (key: string, value: string, lease?: string): Op => ({
  request_put: { key: Buffer.from(key), value: Buffer.from(value), ...(lease !== undefined && { lease }) },
})
export const remove = (key: string): Op => ({ request_delete_range: { key: Buffer.from(key) } })
export const removeAll = (prefix: string): Op => ({
  request_delete_range: { key: Buffer.from(prefix), range_end: prefixEnd(prefix) },
})

/** The first key after all that begin with `prefix`, which must be ASCII and not empty. */
export function prefixEnd(prefix: string): Buffer {
  const end = Buffer.from(prefix)
  end[end.length - 1] = (end.at(-1) ?? 0) + 1
  return end
}
