/** What the core does around every route, for the OpenAPI document: headers it sends, refusals it may answer with. */
import type { Operation } from './openapi.ts'

const text = (description: string) => ({ description, schema: { type: 'string' } })
const count = (description: string) => ({ description, schema: { type: 'integer', minimum: 0 } })

export const HEADERS = {
  'X-Request-Id': text('Names this request in the log of the agent and in the events that it caused.'),
  'X-Event-Id': count('Id of the last event of this change, in the event stream.'),
  'X-Ignored-Fields': text('Keys of the body that this route does not know, comma-separated.'),
  ETag: text('Names the state that was read, for If-Match and If-None-Match.'),
  'RateLimit-Policy': text(
    'The rate limit of this source address: `q` requests in a window of `w` seconds, of which `burst` may come at once.',
  ),
  'RateLimit-Limit': count(
    'Requests that may come at once from this source address: the `burst` of RateLimit-Policy, not its `q`.',
  ),
  'RateLimit-Remaining': count('Requests that are left of them.'),
  'RateLimit-Reset': count('Seconds until all of them may come again.'),
  'Stratum-Reason': text(
    'Why the part of the agent is off on this node, in printable ASCII. For operators; a tenant is not told.',
  ),
  'Retry-After': count('Seconds after which it is worth trying again.'),
} as const
export type HeaderName = keyof typeof HEADERS

/** Sent with every answer over the network. */
const ALWAYS: readonly HeaderName[] = [
  'X-Request-Id',
  'RateLimit-Policy',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
]

/** What the answers to `operation` carry; `success` says whether to a 2xx. */
export function headersOf(operation: Operation, success: boolean): HeaderName[] {
  const { method, changes, tagged, strict } = operation
  const read = success && tagged && !changes
  return [
    ...ALWAYS,
    ...(read ? (['ETag'] as const) : []),
    ...(success && changes ? (['X-Event-Id'] as const) : []),
    ...((method === 'POST' || method === 'PUT') && !strict ? (['X-Ignored-Fields'] as const) : []),
  ]
}

export interface Refusal {
  status: number
  /** Among the components of the document. */
  name: string
  description: string
  /** Besides those of every answer. */
  header?: HeaderName
  when(operation: Operation): boolean
}

const always = () => true
const hasBody = ({ schema }: Operation) => schema.body !== undefined

export const REFUSALS: readonly Refusal[] = [
  {
    status: 400,
    name: 'Malformed',
    description: 'The request is malformed; the error names what is wrong with which field.',
    when: (operation) =>
      hasBody(operation) || operation.changes || operation.tagged || operation.schema.querystring !== undefined,
  },
  {
    status: 401,
    name: 'NoCredential',
    description: 'No credential was sent, or none that is valid.',
    when: ({ auth }) => auth !== 'none',
  },
  {
    status: 403,
    name: 'Forbidden',
    description: 'Not from this address, not with this credential, not with this plan, or the licence is frozen.',
    when: always,
  },
  {
    status: 404,
    name: 'NotFound',
    description: 'What the path or the body names is not there, or no member of the cluster is called as X-Node says.',
    when: always,
  },
  {
    status: 409,
    name: 'Conflict',
    description: 'The change does not go together with what there is.',
    when: ({ changes }) => changes,
  },
  {
    status: 412,
    name: 'PreconditionFailed',
    description: 'The state is not the one that If-Match or If-None-Match asks for. Nothing was changed.',
    when: ({ tagged, changes }) => tagged || changes,
  },
  { status: 413, name: 'TooLarge', description: 'The body is over 1 MiB.', when: hasBody },
  { status: 415, name: 'NotJson', description: 'The Content-Type of the body is not application/json.', when: hasBody },
  {
    status: 429,
    name: 'TooMany',
    description: 'The rate limit is exceeded, or the source address is blocked after failed authentications.',
    header: 'Retry-After',
    when: always,
  },
  { status: 500, name: 'Failed', description: 'The agent failed; nothing was changed.', when: always },
  {
    status: 503,
    name: 'NotAvailable',
    description:
      'The part of the agent that this path belongs to is off, the agent starts or stops (Retry-After then), or the member of the cluster is not to be reached.',
    header: 'Stratum-Reason',
    when: always,
  },
]
