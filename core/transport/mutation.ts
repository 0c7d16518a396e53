/** How a route carries out a change: who asks comes from the request, the event's number goes into the answer. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Rule } from '../area.ts'
import type { Origin } from '../state/events.ts'

export function originOf(request: FastifyRequest): Origin {
  const { kind = 'system', label = 'unknown' } = request.caller ?? {}
  return { actor: { kind, label }, requestId: request.id }
}

/** Runs `rule` through the pipeline for `area` and resolves with its result once it is durable and in the kernel. */
export async function carryOut<T>(
  request: FastifyRequest,
  reply: FastifyReply,
  area: string,
  rule: Rule<T>,
): Promise<T> {
  const { result, eventId } = await request.server.agent.pipeline.mutate(area, originOf(request), rule)
  if (eventId !== undefined) reply.header('x-event-id', eventId)
  return result
}
