/** Requests that look as if they were a tenant's own, or that hope that two readers of a path read it differently. */

/** A request: `target` as it goes over the wire, one character a byte; `headers` end with CRLF each. */
export interface Trick {
  method: string
  target: string
  headers: string
}

export interface Places {
  own: string
  other: string
  suspended: string
  /** Every registered route. */
  routes: readonly string[]
}

const METHODS = ['GET', 'GET', 'GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD']
/** What proxies and frameworks take for another path or method. */
const HEADERS = [
  ...['', '', '', '', ''],
  'X-HTTP-Method-Override: GET\r\n',
  'X-Original-URL: /api/v1/status\r\nX-Rewrite-URL: /api/v1/status\r\n',
  'X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\nX-Forwarded-Prefix: /api/v1\r\n',
  'X-Node: other\r\n',
]
const DOTS = ['.', '..', '%2e', '%2E%2e', '.%2e', '%2e.', '%252e%252e', '..;', '..%00', '...', '%c0%ae%c0%ae', '..%20']
const SLASHES = ['/', '//', '/./', '%2f', '%2F', '%252f', '\\', '%5c', '/%2f', '%c0%af', '%ef%bc%8f', ';/', '/;/']
const TAILS = [
  ...[
    '/',
    '//',
    '/.',
    '/..',
    '/../',
    '?',
    '??',
    '?/',
    '#',
    '#/',
    ';',
    ';a=b',
    '%00',
    '%20',
    '%09',
    '%0d%0a',
    '%3f',
    '%23',
  ],
  ...[
    '?id=',
    '?tenant_id=',
    '&id=',
    '#?',
    '?#',
    '%',
    '%zz',
    '%2',
    '.json',
    '~',
    '*',
    '+',
    '%ff',
    '%u002e',
    '\u00a0',
    '%e2%80%ae',
  ],
]
const FRONTS = [
  ...[
    'http://node',
    'https://node:7070',
    'http://127.0.0.1',
    'HTTP://node',
    'http://a:b@node',
    'http://',
    'https://node//',
  ],
  ...[
    '//node',
    '/.',
    '//',
    '/x/..',
    '/%2e',
    '/health/..',
    '/api/v1/health/..',
    '/api/v1/docs/../..',
    '\\',
    '',
    '/control/v1/..',
  ],
]
const BYTES = [
  '\0',
  '\x01',
  '\t',
  ' ',
  '\x7f',
  '\x80',
  '\xff',
  '\xc3\xa9',
  '／',
  '．．',
  '\xe2\x80\xa8',
  '"',
  '<',
  '\r',
  '`',
  '{',
  '|',
  '^',
]

/** `random` gives numbers from 0 to 1: the same ones give the same requests. */
export function tricks(places: Places, count: number, random: () => number): Trick[] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const { own, other, suspended } = places
  const inside = places.routes
    .filter((route) => /\/(tenant|tenants)\/:/.test(route))
    .map((route) =>
      route
        .slice('/api/v1'.length)
        .replace(/\/:\w+/, '/{}')
        .replace(/:\w+/g, 'x1'),
    )
  const outside = places.routes.map((route) =>
    route.replace('/api/v1', '').replace(/:\w+/g, pick([own, other, 'x1', '1'])),
  )

  /** A path of the own tenant, and how one might think that it leads on to another's. */
  const climb = () => {
    const [from, to] = [
      pick(inside).replace('{}', own),
      pick([...inside.map((path) => path.replace('{}', other)), pick(outside)]),
    ]
    const up = Array.from({ length: 1 + Math.floor(random() * 5) }, () => pick(SLASHES) + pick(DOTS)).join('')
    return from + up + (random() < 0.7 ? to : pick(SLASHES) + other)
  }
  const idOf = (id: string) =>
    pick([
      () => id.toUpperCase(),
      () => `${own}${pick(SLASHES)}${id}`,
      () => `${id}${pick(TAILS)}${own}`,
      () => `${own}${pick([',', ';', '%2c', '+', '%20', '%00', '|', '&', '%26'])}${id}`,
      () => encodeAt(id, Math.floor(random() * id.length), random() < 0.5 ? '%' : '%25'),
      () => [...id].map((char) => `%${hex(char)}`).join(''),
      () => id.slice(0, -1),
      () => id + 'x'.repeat(Math.floor(random() * 400)),
      () => `${id}${'0'.repeat(255)}`,
      () => '*',
      () => ':id',
      () => '{}',
      () => '',
      () => 'undefined',
      () => 'null',
      () => '__proto__',
    ])()
  const base = () =>
    pick([
      climb,
      climb,
      () => pick(inside).replace('{}', own),
      () => pick(inside).replace('{}', pick([own, own, other, suspended])),
      () => pick(inside).replace('{}', idOf(pick([own, other]))),
      () => pick(inside).replace('{}', idOf(other)),
      () => pick(outside),
    ])()
  const bend = (path: string): string => {
    const at = 1 + Math.floor(random() * (path.length - 1))
    const [head, char, tail] = [path.slice(0, at), path[at] ?? '', path.slice(at + 1)]
    return pick([
      () => encodeAt(path, at, '%'),
      () => encodeAt(path, at, '%25'),
      () => head + char.toUpperCase() + tail,
      () => path + pick(TAILS),
      () => path + pick(TAILS) + pick([own, other]),
      () => head + pick(SLASHES) + char + tail,
      () => head + pick(DOTS) + char + tail,
      () => head + pick(TAILS) + char + tail,
      () => path[0] + path.slice(1).replace('/', pick(SLASHES)),
      () => path[0] + path.slice(1).replaceAll('/', pick(['//', '/./', '%2f'])),
    ])()
  }
  return Array.from({ length: count }, () => {
    let path = `/api/v1${base()}`
    for (let edits = Math.floor(random() * 3); edits > 0; edits--) path = bend(path)
    if (random() < 0.12) path = pick(FRONTS) + path
    if (random() < 0.03) {
      const at = 1 + Math.floor(random() * (path.length - 1))
      path = path.slice(0, at) + pick(BYTES) + path.slice(at)
    }
    // Letters that are not of one byte go as UTF-8.
    const target = Buffer.from(
      path.replace(/[\u0100-\uffff]+/g, (text) => Buffer.from(text).toString('latin1')),
      'latin1',
    )
    return { method: pick(METHODS), target: target.toString('latin1'), headers: pick(HEADERS) }
  })
}

const hex = (char: string) => (char.codePointAt(0) ?? 0).toString(16).padStart(2, '0').slice(-2)
const encodeAt = (text: string, at: number, mark: string) =>
  `${text.slice(0, at)}${mark}${hex(text[at] ?? 'a')}${text.slice(at + 1)}`
