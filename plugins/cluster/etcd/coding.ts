/** How the two messages that can be very large are coded: in slices, between which others get their turn. */
import type { PackageDefinition, ServiceDefinition } from '@grpc/proto-loader'
import { inSlices } from '../../../core/slices.ts'
import { partsOf, without } from './wire.ts'
import type { Compare, Op } from './words.ts'

export interface WatchResponse {
  header: { revision: string } | null
  created: boolean
  canceled: boolean
  compact_revision: string
  cancel_reason: string
  fragment: boolean
  events: { type: 'PUT' | 'DELETE'; kv: { key: Buffer; value: Buffer; mod_revision: string } }[]
}

export interface Coding {
  /** A TxnRequest. */
  request(compares: readonly Compare[], ops: readonly Op[]): Promise<Buffer>
  /** A WatchResponse: the first part has all but the events, and some of those, which the others continue. */
  told(message: Buffer): Generator<WatchResponse>
}

/** Keys that are coded in one go. */
const PART = 200
/** Field numbers of rpc.proto. */
const [WATCH_EVENTS, TXN_RESPONSES] = [11, 3]

/** Changes the definition so that these messages come and go as they are on the wire. */
export function inParts(definition: PackageDefinition): Coding {
  const service = (name: string) => definition[`etcdserverpb.${name}`] as ServiceDefinition
  const [txn, watch] = [service('KV').Txn, service('Watch').Watch]
  if (txn === undefined || watch === undefined) throw new TypeError('etcd.proto lacks Txn or Watch')
  const { requestSerialize: encode, responseDeserialize: decodeAnswer } = txn
  const { responseDeserialize: decode } = watch
  const asIs = (message: Buffer) => message
  Object.assign(txn, {
    requestSerialize: asIs,
    // One for each key, and they say nothing.
    responseDeserialize: (message: Buffer) => decodeAnswer(without(message, TXN_RESPONSES)),
  })
  Object.assign(watch, { responseDeserialize: asIs })
  return {
    async request(compares, ops) {
      const parts: Buffer[] = []
      await inSlices(portions(compares), (compare) => void parts.push(encode({ compare })))
      await inSlices(portions(ops), (success) => void parts.push(encode({ success })))
      return Buffer.concat(parts)
    },
    *told(message) {
      for (const part of partsOf(message, WATCH_EVENTS, PART)) yield decode(part) as WatchResponse
    },
  }
}

function* portions<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += PART) yield items.slice(at, at + PART)
}
