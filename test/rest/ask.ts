/** Calls into an agent with everything about them chosen: credential, source address, headers, raw body. */
import type { Agent } from '../../core/agent.ts'
import type { Answer } from '../build.ts'
import { type BuildAgentOptions, type BuiltAgent, buildAgent, TOKEN } from '../build.ts'
import type { Scope } from '../netns.ts'

/** No test meets the rate limit or the lockout by accident. */
export const UNHURRIED = { api_rate_limit: '10000000', api_rate_burst: '1000000', api_auth_fail_limit: '100000' }

/** The two areas whose routes these tests know; areas of their own come through `extraAreas`. */
export function openAgent(t: Scope, { config, ...rest }: BuildAgentOptions = {}): Promise<BuiltAgent> {
  return buildAgent(t, { only: ['node', 'firewall'], config: { ...UNHURRIED, ...config }, ...rest })
}

export interface Ask {
  /** The bearer token; null: no Authorization header. Without it: the node token. */
  token?: string | null
  /** Source address; without it 127.0.0.1. */
  from?: string
  headers?: Record<string, string>
  /** Sent as it is. */
  payload?: string | Buffer
  /** Sent as JSON with its Content-Type. */
  json?: unknown
}

export async function ask({ app }: Agent, method: string, url: string, options: Ask = {}): Promise<Answer> {
  const { token = TOKEN, from, headers = {}, json } = options
  const payload = json === undefined ? options.payload : JSON.stringify(json)
  const answer = await app.inject({
    // inject() knows the common methods by type and sends any.
    method: method as 'GET',
    url,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(json !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(from !== undefined && { remoteAddress: from }),
    ...(payload !== undefined && { payload }),
  })
  const isJson = answer.headers['content-type']?.toString().startsWith('application/json')
  const encoded = answer.headers['content-encoding'] !== undefined
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.payload,
    body: isJson && !encoded && answer.payload !== '' ? answer.json() : {},
  }
}

/** Status and error of an answer, for tables. */
export const refusal = ({ status, body }: Answer): [number, unknown] => [status, body.error]
