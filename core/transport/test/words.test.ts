/** Refusals are read by people: no word of the validator reaches them, whatever the field and whatever stands in it. */
import t from 'tap'
import { buildAgent } from '../../../test/build.ts'
import { UNHURRIED } from '../../../test/rest/ask.ts'

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
  type?: string
  required?: string[]
}

const BAD: readonly unknown[] = [
  ...[
    null,
    true,
    -1,
    0,
    1.5,
    1e300,
    '',
    ' ',
    'bad name?',
    'a\u0000b',
    'a\u202eb',
    'constructor',
    'default',
    'x'.repeat(300),
  ],
  ...[[], [null], [''], {}, { x: 1 }],
]
const VALIDATOR =
  /pattern|constant|must NOT|must be (string|integer|number|object|array|boolean|equal)\b|\^|\\|one of ,|, ,|something else|fewer|cannot be used/

t.test('bad values in every field of every body and query are refused in plain words', async (t) => {
  const { agent, call } = await buildAgent(t, { config: UNHURRIED })
  const seen = new Set<string>()
  for (const { method, url, schema } of agent.routes) {
    const verb = [method].flat()[0] ?? ''
    if (!/^(GET|POST|PUT|DELETE)$/.test(verb) || url.startsWith('/control')) continue
    const path = url.replace(/:\w+/g, '1')
    const { body, querystring } = (schema ?? {}) as { body?: Schema; querystring?: Schema }
    for (const wrong of body === undefined ? [] : variants(body)) seen.add((await call(verb, path, wrong)).text)
    for (const [key, value] of Object.keys(querystring?.properties ?? {}).flatMap((key) => BAD.map((v) => [key, v]))) {
      if (typeof value === 'string') seen.add((await call(verb, `${path}?${key}=${encodeURIComponent(value)}`)).text)
    }
  }
  const refusals = [...seen].filter((text) => text.startsWith('{"error"')).map((text): string => JSON.parse(text).error)
  t.ok(refusals.length > 200, `${refusals.length} different refusals`)
  t.same(
    refusals.filter((text) => VALIDATOR.test(text)),
    [],
  )
})

t.test('fw-08 a refusal says what would be right', async (t) => {
  const { call } = await buildAgent(t, { config: UNHURRIED })
  const cases: [path: string, body: unknown, error: string][] = [
    [
      '/rules',
      { action: 'drop', interface: 'a-name-far-too-long' },
      'interface: must be a device name: 1 to 15 letters, digits, dots, hyphens and underscores or empty',
    ],
    ['/rules', { action: 'drop', chain: 'x' }, 'chain: must be prerouting or empty'],
    ['/rules', { action: 'drop', protocol: 'x' }, 'protocol: must be tcp, udp, icmp or empty'],
    ['/rules', { action: 'drop', priority: 'x' }, 'priority: must be a whole number from 0 to 1000000'],
    [
      '/rules',
      { action: 'drop', comment: 'a\u202eb' },
      'comment: must be text of at most 255 characters, without control characters and invisible ones',
    ],
    ['/rules', [], 'body: must be an object'],
    ['/rules/batch', { rules: [] }, 'rules: must have at least one entry'],
    ['/bandwidth/pools', { id: 'batch', total_bps: 1 }, 'id: this word is reserved; choose another'],
    ['/bridges', { name: '..' }, 'name: must be a device name: 1 to 15 letters, digits, dots, hyphens and underscores'],
  ]
  for (const [path, body, error] of cases) {
    const answer = await call('POST', `/api/v1${path}`, body)
    t.same([answer.status, answer.body.error], [400, error], `${path} ${JSON.stringify(body)}`)
  }
})

t.test('invisible characters are refused, letters of every script are not', async (t) => {
  const { call } = await buildAgent(t, { config: UNHURRIED })
  const add = (comment: string) => call('POST', '/api/v1/rules', { action: 'drop', dest_port: 9, comment })
  for (const odd of [
    '\u00ad',
    '\u200b',
    '\u202e',
    '\u2028',
    '\u2029',
    '\u2066',
    '\ufeff',
    '\u{e0041}',
    '\u0085',
    '\ud800',
  ]) {
    t.equal((await add(`a${odd}b`)).status, 400, odd.codePointAt(0)?.toString(16) ?? '')
  }
  for (const fine of ['Grüße', 'приказ', '规则', 'قاعدة', 'नियम', '🚧', 'e\u0301', 'a\u00a0b']) {
    t.equal((await add(fine)).status, 201, fine)
  }
})

/** Bodies in which one field each, however deep, has one of the bad values. */
function variants(schema: Schema): unknown[] {
  if (schema.type === 'array') return [...BAD, ...variants(schema.items ?? {}).map((item) => [item])]
  if (schema.type !== 'object') return [...BAD]
  const whole = Object.fromEntries((schema.required ?? []).map((key) => [key, sample(schema.properties?.[key])]))
  const fields = Object.entries(schema.properties ?? {})
  return [...BAD, ...fields.flatMap(([key, part]) => variants(part).map((value) => ({ ...whole, [key]: value })))]
}

function sample(schema: Schema & { enum?: unknown[]; minimum?: number } = {}): unknown {
  if (schema.enum) return schema.enum.at(-1)
  if (schema.type === 'integer') return schema.minimum ?? 1
  if (schema.type === 'array') return [sample(schema.items)]
  return schema.type === 'boolean' ? true : schema.type === 'object' ? {} : '10.77.0.1'
}
