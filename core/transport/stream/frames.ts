/** What the stream sends (D110, D111), as schemas: the types follow from them, and so do the documents. */
import { hostname } from 'node:os'
import { type Static, type TSchema, Type } from 'typebox'
import { StringEnum, Timestamp } from '../../schemas.ts'
import type { Outbox } from '../../state/events.ts'

const Id = Type.Integer({ minimum: 1, description: 'grows by one with every event of a stream' })

/** The first frame: which stream this is, and what of it is kept. */
export const Hello = Type.Object({
  v: Type.Literal(1),
  type: Type.Literal('stream.hello'),
  data: Type.Object({
    stream: Type.String({ description: 'id of this sequence of events; a restored or new database has another' }),
    oldest: Type.Integer({ description: 'first event that is kept; 0 when there is none' }),
    latest: Type.Integer({ description: 'last event so far; 0 when there is none' }),
    node: Type.String(),
    version: Type.String(),
  }),
})
export type Hello = Static<typeof Hello>

/** Events `from` to `to` will never come. A `from` of 0: what the reader knows belongs to another stream. */
export const Gap = Type.Object({
  v: Type.Literal(1),
  type: Type.Literal('stream.gap'),
  data: Type.Object({ from: Type.Integer(), to: Type.Integer() }),
})
export type Gap = Static<typeof Gap>

/** The last line over the control socket, where HTTP has no close codes. */
export const End = Type.Object({
  v: Type.Literal(1),
  type: Type.Literal('stream.end'),
  data: Type.Object({ code: Type.Integer(), reason: Type.String() }),
})
export type End = Static<typeof End>

/** An event of `type`, which `area` emits with `data`. */
export const envelope = (type: string, area: string, data: TSchema) =>
  Type.Object({
    v: Type.Literal(1),
    id: Id,
    time: Timestamp,
    type: Type.Literal(type),
    area: Type.Literal(area),
    resource: Type.String({ description: 'path of what changed, below the REST API where it has one' }),
    actor: Type.Object({
      kind: StringEnum(['token', 'operator', 'tenant', 'cli', 'system']),
      label: Type.String({ description: 'which key, or which part of the agent; never a secret' }),
    }),
    request_id: Type.String({ description: 'X-Request-Id of the answer to the change' }),
    data,
  })

export const helloOf = (outbox: Pick<Outbox, 'stream' | 'bounds'>, version: string): Hello => ({
  v: 1,
  type: 'stream.hello',
  data: { stream: outbox.stream, ...outbox.bounds(), node: hostname(), version },
})
