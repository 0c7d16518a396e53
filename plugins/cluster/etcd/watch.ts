/** One watch of etcd: what it tells, decoded in slices and in its order. */
import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js'
import { inSlices } from '../../../core/slices.ts'
import type { Coding, WatchResponse } from './coding.ts'
import { prefixEnd } from './words.ts'

/** What etcd or the way to it said. */
export class EtcdError extends Error {
  /** gRPC status. */
  readonly code: number

  constructor(code: number, details: string) {
    super(details)
    this.code = code
  }
}

export interface WatchEvent {
  key: string
  /** undefined: the key is gone. */
  value: string | undefined
  revision: number
}
export interface WatchListener {
  /** Events up to `revision`, whole revisions only; none: nothing has happened up to there. */
  events(events: WatchEvent[], revision: number): void
  /** It is over; compacted: what came next has been forgotten, and all must be read anew. */
  end(why: { error?: EtcdError; compacted?: boolean }): void
}

/** Begins at revision `from`. Returns how to stop it. */
export function follow(
  stream: ClientDuplexStream<object, Buffer>,
  told: Coding['told'],
  prefix: string,
  from: number,
  listener: WatchListener,
): () => void {
  let over = false
  let held: WatchEvent[] = []
  let last: Promise<unknown> = Promise.resolve()
  const end: WatchListener['end'] = (why) => {
    if (over) return
    over = true
    stream.cancel()
    listener.end(why)
  }

  async function take(message: Buffer): Promise<void> {
    let head: WatchResponse | undefined
    await inSlices(told(message), (part) => {
      head ??= part
      for (const { type, kv } of part.events) {
        const value = type === 'PUT' ? kv.value.toString() : undefined
        held.push({ key: kv.key.toString(), value, revision: Number(kv.mod_revision) })
      }
    })
    if (over || head === undefined) return
    const {
      header,
      created,
      canceled,
      compact_revision: compacted,
      cancel_reason: reason,
      fragment,
    } = head as WatchResponse
    if (canceled) return end({ compacted: Number(compacted) > 0, error: new EtcdError(14, reason) })
    // A revision that is larger than a message comes in pieces.
    if (fragment || created) return
    const events = held
    held = []
    // The header tells how far etcd is, and to one that is far behind it tells its events in several messages.
    listener.events(events, events.at(-1)?.revision ?? Number(header?.revision ?? 0))
  }
  /** In their order, and the end after what came before it. */
  const next = (work: () => unknown) => {
    last = last.then(work).catch((error: unknown) => end({ error: new EtcdError(13, String(error)) }))
  }

  stream.on('data', (message: Buffer) => next(() => over || take(message)))
  stream.on('error', (error: ServiceError) => next(() => end({ error: new EtcdError(error.code, error.details) })))
  stream.on('end', () => next(() => end({})))
  stream.write({
    create_request: {
      key: Buffer.from(prefix),
      range_end: prefixEnd(prefix),
      start_revision: from,
      progress_notify: true,
      fragment: true,
    },
  })
  return () => {
    over = true
    stream.cancel()
  }
}
