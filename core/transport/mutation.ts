/** How a route carries out a change: who asks comes from the request, the event's number goes into the answer. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Db, Rule } from '../area.ts'
import type { Origin } from '../state/events.ts'
import { preconditionOf } from './etag.ts'

export function originOf(request: FastifyRequest): Origin {
  const { kind = 'system', label = 'unknown' } = request.caller ?? {}
  return { actor: { kind, label }, requestId: request.id }
}

/**
 * Runs `rule` through the pipeline for `area` and resolves with its result once it is durable and in the kernel.
 * `current` is the thing that the path names, as its GET answers it, undefined when there is none: with it a client's
 * If-Match is held against what the rule is about to change, in the same transaction.
 * @throws ApiError 400 for an If-Match that cannot be read, 412 when it does not hold; and what the rule throws
 */
export async function carryOut<T>(
  request: FastifyRequest,
  reply: FastifyReply,
  area: string,
  rule: Rule<T>,
  current?: (tx: Db) => object | undefined,
): Promise<T> {
  const precondition = preconditionOf(request, current !== undefined)
  const guarded: Rule<T> =
    precondition === undefined
      ? rule
      : (tx) => {
          precondition(current === undefined ? {} : current(tx))
          return rule(tx)
        }
  const { result, eventId } = await request.server.agent.pipeline.mutate(area, originOf(request), guarded)
  if (eventId !== undefined) reply.header('x-event-id', eventId)
  return result
}
