/** What somebody without a credential sends to the API port. `TOKEN` stands for the node's token, where a row has it. */
import type { Request } from './table.ts'

export const TOKEN_MARK = '{token}'
const STATUS = '/api/v1/status'
/** Neither the thing nor anything that was done: 400, 401, 404, 405, 413, 414, 426, 431, 501, 505, or a closed connection. */
const REFUSED = /^((400|401|404|405|413|414|426|431|501|505)( (400|401))?)?$/

const get = (path: string, ...headers: string[]): string =>
  [`GET ${path} HTTP/1.1`, 'Host: node', 'Connection: close', ...headers, '', ''].join('\r\n')

/** Headers by which a proxy would tell the agent that it knows the caller. */
const FORGED = [
  'X-Forwarded-For: 127.0.0.1',
  'Forwarded: for=127.0.0.1;proto=https',
  'X-Real-IP: 127.0.0.1',
  'X-Original-URL: /api/v1/health',
  'X-Rewrite-URL: /api/v1/health',
  'X-HTTP-Method-Override: OPTIONS',
  'X-Stratum-Caller: {"address":"127.0.0.1","kind":"token"}',
  'X-Node: node-2',
  `Cookie: token=${TOKEN_MARK}`,
  `X-Api-Key: ${TOKEN_MARK}`,
]

/** Credentials that are not the one that RFC 6750 names. */
const CREDENTIALS = [
  'Authorization: Bearer',
  'Authorization: Bearer null',
  `Authorization: Basic ${TOKEN_MARK}`,
  `Authorization: bearer${TOKEN_MARK}`,
  `Authorization: Bearer ${TOKEN_MARK}x`,
  `Authorization: Bearer x${TOKEN_MARK}`,
  `Authorization: Bearer other\r\nAuthorization: Bearer ${TOKEN_MARK}`,
  `Authorization: Bearer ${TOKEN_MARK}, Bearer other`,
  `Authorization:\r\n Bearer ${TOKEN_MARK}`,
  `Authorization: Bearer\x00${TOKEN_MARK}`,
  `Authorization\x00: Bearer ${TOKEN_MARK}`,
  `Authorization : Bearer ${TOKEN_MARK}`,
]

/** Paths that a sloppy router would take for a public one, or that leave /api/v1. */
const PATHS = [
  '/api/v1/health/../status',
  '/api/v1/health/%2e%2e/status',
  '/api/v1/health%2f..%2fstatus',
  '/api/v1//status',
  '//api/v1/status',
  '/api/v1/status/',
  '/api/v1/status;/health',
  '/api/v1/status%00/health',
  '/api/v1/status?/api/v1/health',
  '/api/v1/status#/../health',
  '/api/v1/Status',
  '/%61pi/v1/status',
  '/api/v1\\status',
  'https://node/api/v1/status',
  '/control/v1/config',
  '/control/v1/api-token',
  '/pass/api/v1/status',
  '/api/v1/%',
  '/api/v1/%ff%fe',
  `/api/v1/${'a/'.repeat(4000)}`,
]

const body = (headers: string, payload: string): string =>
  `POST /api/v1/rules HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\n${headers}\r\n\r\n${payload}`
/** What would be a second request, had the first been read otherwise. */
const SECOND = get(STATUS, `Authorization: Bearer ${TOKEN_MARK}`)

/** Two readings of where a request ends (RFC 9112 §11.2). The second request must never be answered with what it asks for. */
const SMUGGLED: readonly [string, string][] = [
  ['content length and chunks', body('Content-Length: 6\r\nTransfer-Encoding: chunked', `0\r\n\r\n${SECOND}`)],
  ['two transfer codings', body('Transfer-Encoding: chunked\r\nTransfer-Encoding: x', `0\r\n\r\n${SECOND}`)],
  ['an unknown transfer coding', body('Transfer-Encoding: xchunked', `0\r\n\r\n${SECOND}`)],
  ['two lengths', body('Content-Length: 0\r\nContent-Length: 9', SECOND)],
  ['a length with a sign', body('Content-Length: +5', `12345${SECOND}`)],
  ['a length in hex', body('Content-Length: 0x5', `12345${SECOND}`)],
  ['a bare line feed behind a header', `GET ${STATUS} HTTP/1.1\nHost: node\n\n${SECOND}`],
  ['a bare carriage return', `GET ${STATUS} HTTP/1.1\r\nHost: node\rX: y\r\n\r\n${SECOND}`],
  ['a chunk size that is none', body('Transfer-Encoding: chunked', `zz\r\n\r\n${SECOND}`)],
]

const OTHER: readonly [string, string][] = [
  ['HTTP/0.9', `GET ${STATUS}\r\n`],
  ['HTTP/1.0 without Host', `GET ${STATUS} HTTP/1.0\r\n\r\n`],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['an upgrade to HTTP/2', get(STATUS, 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__')],
  [
    'a WebSocket on the API port',
    get('/api/v1/events', 'Upgrade: websocket', 'Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=='),
  ],
  ['CONNECT', 'CONNECT 127.0.0.1:7071 HTTP/1.1\r\nHost: node\r\n\r\n'],
  ['TRACE', `TRACE ${STATUS} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n`],
  ['a header of 100 kB', get(STATUS, `X: ${'x'.repeat(100_000)}`)],
  ['3,000 headers', get(STATUS, ...Array.from({ length: 3000 }, (_, n) => `X-${n}: x`))],
]

export const requests: readonly Request[] = [
  ...FORGED.map((header) => ({ what: `header ${header.slice(0, 40)}`, send: get(STATUS, header), expected: REFUSED })),
  ...CREDENTIALS.map((header) => ({
    what: `credential ${JSON.stringify(header.slice(0, 50))}`,
    send: get(STATUS, header),
    expected: REFUSED,
  })),
  ...PATHS.map((path) => ({ what: `path ${path.slice(0, 60)}`, send: get(path), expected: REFUSED })),
  ...SMUGGLED.map(([what, send]) => ({ what: `smuggled behind ${what}`, send, expected: REFUSED })),
  ...OTHER.map(([what, send]) => ({ what, send, expected: REFUSED })),
]

/** What must be answered, so that the rows above are not refused for another reason. */
export const controls: readonly Request[] = [
  { what: 'the token', send: get(STATUS, `Authorization: Bearer ${TOKEN_MARK}`), expected: /^200$/ },
  { what: 'a public path', send: get('/api/v1/health'), expected: /^200$/ },
]
