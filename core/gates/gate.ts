/** What a gate sees of a call, and what it may answer. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiError } from '../errors.ts'
import type { Client } from './client.ts'

/** Who calls, once a credential was accepted. */
export interface Caller {
  kind: 'token' | 'operator' | 'tenant' | 'cli'
  /** Key id or label for the events; never a secret. */
  label: string
  tenantId?: string
  /** The tenant is suspended: it may read, not change (D40). */
  suspended?: boolean
}

export interface Call {
  request: FastifyRequest
  reply: FastifyReply
  client: Client
  /** Decoded once, below /api/v1; undefined elsewhere. */
  path: string | undefined
  caller: Caller | undefined
  /** The other member of the cluster that is to answer; the gates that come after are its. */
  member: string | undefined
}

/** Returns the refusal, or nothing to let the call pass on to the next gate. */
export type Gate = (call: Call) => ApiError | undefined

declare module 'fastify' {
  interface FastifyRequest {
    /** Set once the gates let the call pass. */
    caller: Caller | undefined
    /** The other member of the cluster that answers. */
    member: string | undefined
  }
}

/** True for the methods that change something. */
export const isMutation = (method: string): boolean => method !== 'GET' && method !== 'HEAD'

/**
 * The path below /api/v1, each segment percent-decoded once; undefined for other paths and for broken escapes.
 * A segment that decodes to something with a slash keeps it escaped, so it cannot pass for two segments.
 */
export function apiPath(url: string): string | undefined {
  // The router ends the path at either.
  const end = url.search(/[?#]/)
  const path = end < 0 ? url : url.slice(0, end)
  if (!path.startsWith('/api/v1/')) return undefined
  const rest = path.slice('/api/v1'.length)
  if (!rest.includes('%')) return rest
  try {
    return rest
      .split('/')
      .map((segment) => decodeURIComponent(segment).replaceAll('/', '%2F'))
      .join('/')
  } catch {
    return undefined
  }
}
