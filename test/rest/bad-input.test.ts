/** Every route that takes a body, against everything a body can get wrong: the specified error, and nothing changed. */
import t from 'tap'
import type { BuiltAgent } from '../build.ts'
import { TOKEN } from '../build.ts'
import type { Scope } from '../netns.ts'
import { ask, openAgent, refusal } from './ask.ts'
import { type Snapshot, snapshot } from './snapshot.ts'
import { serve, tlsLine } from './wire.ts'

const P = '/api/v1'
const json = { 'content-type': 'application/json' }
const DEEP = 100_000

/** The part of a JSON Schema that matters here. */
interface Schema {
  type?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  items?: Schema
  minimum?: number
  minItems?: number
  required?: string[]
  properties?: Record<string, Schema>
  additionalProperties?: unknown
}

interface BodyRoute {
  label: string
  method: string
  url: string
  schema: Schema
}

/** Where clustering is not enabled, a 503 says so before a body is looked at (D1). */
const CLUSTERING = { cluster_enabled: 'on', cluster_address: '127.0.0.1' }

/** All areas of this build, with a rule for the calls to break. */
async function opened(t: Scope): Promise<BuiltAgent & { bodied: BodyRoute[]; before: Snapshot }> {
  const built = await openAgent(t, { only: undefined as never, config: CLUSTERING })
  await ask(built.agent, 'POST', `${P}/rules`, { json: { action: 'drop', source_ip: '192.0.2.1', comment: 'kept' } })
  const bodied = built.agent.routes.flatMap(({ method, url, schema }) => {
    // TypeBox schemas are JSON Schema.
    const body = schema?.body as Schema | undefined
    if (!url.startsWith(P) || body === undefined) return []
    // A path that is good, so that it is the body that is refused.
    const named = (schema?.params as Schema | undefined)?.properties ?? {}
    const path = url.replace(/:([a-z_]+)/gi, (_, name) => String(named[name]?.enum ? sample(named[name]) : '1'))
    return [{ label: `${method} ${url}`, method: String(method), url: path, schema: body }]
  })
  return { ...built, bodied, before: snapshot(built) }
}

/** A value that the schema accepts as far as types go. */
function sample(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum.find((value) => value !== '')
  if (schema.anyOf) return sample(schema.anyOf.at(-1) ?? {})
  switch (schema.type) {
    case 'string':
      return 'x'
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => sample(schema.items ?? {}))
    default:
      return Object.fromEntries((schema.required ?? []).map((key) => [key, sample(schema.properties?.[key] ?? {})]))
  }
}

/** The JSON types that the schema accepts; undefined = any. */
function types(schema: Schema): Set<string> | undefined {
  if (schema.anyOf) {
    const all = schema.anyOf.map(types)
    return all.some((one) => one === undefined) ? undefined : new Set(all.flatMap((one) => [...(one ?? [])]))
  }
  const literals = schema.enum ?? (schema.const === undefined ? undefined : [schema.const])
  if (literals) return new Set(literals.map((value) => typeof value))
  return schema.type === undefined ? undefined : new Set([schema.type])
}

const WRONG: [type: string, value: unknown][] = [
  ['null', null],
  ['string', 'x'],
  ['string', '1'],
  ['string', ''],
  ['string', 'true'],
  ['integer', 1],
  ['number', 1.5],
  ['number', -0.1],
  ['number', 1e300],
  ['boolean', true],
  ['boolean', false],
  ['array', []],
  ['array', ['x']],
  ['array', [1]],
  ['object', {}],
  ['object', { x: 1 }],
]

t.test('conv-21 err-01 a wrong type in any field is a 400 that changes nothing', async (t) => {
  const built = await opened(t)
  let tried = 0
  for (const { label, method, url, schema } of built.bodied) {
    for (const [key, field] of Object.entries(schema.properties ?? {})) {
      const accepted = types(field)
      if (accepted === undefined) continue
      for (const [type, value] of WRONG) {
        if (accepted.has(type) || (type === 'integer' && accepted.has('number'))) continue
        const body = { ...(sample(schema) as object), [key]: value }
        const answer = await ask(built.agent, method, url, { json: body })
        t.equal(answer.status, 400, `${label} ${key}=${JSON.stringify(value)}`)
        t.match(answer.body.error, new RegExp(`^${key}`), `${label} ${key}=${JSON.stringify(value)}`)
        tried++
      }
    }
  }
  t.ok(tried > 100, `${tried} bodies`)
  t.same(snapshot(built), built.before)
})

t.test('err-01 whatever is wrong with a body as a whole is a 400 that changes nothing', async (t) => {
  const built = await opened(t)
  for (const { label, method, url, schema } of built.bodied) {
    const good = JSON.stringify(sample(schema)).slice(1, -1)
    const and = good === '' ? '' : `,${good}`
    const first = /^"[^"]+"/.exec(good)?.[0] ?? JSON.stringify(Object.keys(schema.properties ?? {})[0] ?? 'x')
    const bodies: [string, string][] = [
      ['malformed', '{'],
      ['cut short', `{${good}`],
      ['trailing data', `{${good}} {}`],
      ['trailing comma', `{${good},}`],
      ['two values', `{${good}}{${good}}`],
      ['a byte order mark', `\ufeff{${good}}`],
      ['a NUL after it', `{${good}}\0`],
      ['a NUL in it', `{\0${good}}`],
      ['a NUL in a string', `{"x":"\0"${and}}`],
      ['a key twice', `{${first}:1,${first}:1${and}}`],
      ['a key twice, escaped', `{"\\u0078":1,"x":1${and}}`],
      ['an array', `[{${good}}]`],
      ['null', 'null'],
      ['a string', '"x"'],
      ['a number', '7'],
      ['brackets without end', '['.repeat(DEEP)],
      ['deep arrays', `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`],
      ['deep below a known field', `{${first}:${'{"a":'.repeat(DEEP)}1${'}'.repeat(DEEP)}}`],
      ['not UTF-8', ''],
    ]
    for (const [what, text] of bodies) {
      const payload = what === 'not UTF-8' ? Buffer.from([0x7b, 0xff, 0xfe, 0x7d]) : text
      const answer = await ask(built.agent, method, url, { headers: json, payload })
      t.equal(answer.status, 400, `${label}: ${what}`)
      t.match(answer.body.error, /^\S.{0,300}$/, `${label}: ${what}`)
    }
  }
  t.same(snapshot(built), built.before)
})

t.test('D10 fw-06 unknown keys, __proto__ among them, are a 400 on strict routes and reach no prototype', async (t) => {
  const built = await opened(t)
  for (const { label, method, url, schema } of built.bodied) {
    if (schema.additionalProperties !== false) continue
    const and = JSON.stringify(sample(schema)).slice(1)
    for (const key of [
      'nope',
      '__proto__',
      'constructor',
      'toString',
      'ACTION',
      'action ',
      'id',
      '',
      'x'.repeat(5000),
      'é',
    ]) {
      const payload = `{${JSON.stringify(key)}:{"polluted":true},${and}`
      const answer = await ask(built.agent, method, url, { headers: json, payload })
      t.same(refusal(answer), [400, `unrecognised key: ${key.slice(0, 64)}`], `${label} ${key.slice(0, 20)}`)
    }
  }
  t.equal(({} as { polluted?: boolean }).polluted, undefined)
  t.same(snapshot(built), built.before)
})

/** Texts that no field of text may take. */
const TEXTS = ['\0', 'a\0b', '\u0001', '\n', '\r\n', '\x7f', '\u0085', '\u009f', '\ud800', 'a\udfffb', '\ud800\ud800']

t.test('D17 err-01 control characters and lone surrogates in any text are a 400 that changes nothing', async (t) => {
  const built = await opened(t)
  for (const { label, method, url, schema } of built.bodied) {
    for (const [key, field] of Object.entries(schema.properties ?? {})) {
      if (!types(field)?.has('string')) continue
      for (const text of TEXTS) {
        const answer = await ask(built.agent, method, url, { json: { ...(sample(schema) as object), [key]: text } })
        t.equal(answer.status, 400, `${label} ${key}=${JSON.stringify(text)}`)
      }
    }
  }
  t.same(snapshot(built), built.before)
})

t.test('D16 D17 err-01 values out of range of a rule are a 400 naming the field', async (t) => {
  const built = await opened(t)
  const wrong: Record<string, unknown[]> = {
    action: ['reject', 'ACCEPT', 'Drop', '', 'allow'],
    priority: [-1, 1_000_001, 2 ** 53],
    protocol: ['sctp', 'TCP', '6', 'icmpv6', 'any'],
    source_ip: [
      'x',
      '1.2.3',
      '1.2.3.4/33',
      '1.2.3.4/-1',
      '1.2.3.4/',
      '01.2.3.4',
      '1.2.3.4 ',
      '::1/129',
      '::g',
      '1.2.3.4/8/8',
      'fe80::1%eth0',
      '0x1.2.3.4',
      '16909060',
    ],
    dest_ip: ['1.2.3.256', '/24', '1.2.3.4-1.2.3.9', '::ffff:1.2.3.4/200', `1.2.3.4${' '.repeat(100)}`],
    source_port: [-1, 65_536, 1e9],
    dest_port: [-1, 65_536],
    dest_port_max: [65_536, 80],
    interface: ['a'.repeat(16), 'a b', 'a/b', '..', '.', 'a"b', 'a;b', 'eth0\n', 'é', 'a\\b', 'a:b', '*'],
    mac: [
      'x',
      '00:11:22:33:44',
      '00:11:22:33:44:55:66',
      '0:1:2:3:4:5',
      '001122334455',
      '00:11:22-33:44:55',
      '00:11:22:33:44:5g',
    ],
    level: ['GLOBAL', 'x', 'port'],
    comment: ['x'.repeat(256)],
    chain: ['input', 'PREROUTING', 'forward'],
    stateful: [false],
  }
  for (const [key, values] of Object.entries(wrong)) {
    for (const value of values) {
      const body = { action: 'drop', [key]: value }
      for (const [method, url] of [
        ['POST', '/rules'],
        ['PUT', '/rules/1'],
      ] as const) {
        const answer = await ask(built.agent, method, `${P}${url}`, { json: body })
        t.equal(answer.status, 400, `${method} ${key}=${JSON.stringify(value)}`)
        t.match(answer.body.error, new RegExp(`^${key}: `), `${method} ${key}=${JSON.stringify(value)}`)
      }
      const batch = await ask(built.agent, 'POST', `${P}/rules/batch`, { json: { rules: [body], atomic: true } })
      t.equal(batch.status, 400, `batch ${key}=${JSON.stringify(value)}`)
    }
  }
  t.same(snapshot(built), built.before)
})

t.test('conv-17 a body that ends early changes nothing on any route', async (t) => {
  const built = await opened(t)
  const { port } = await serve(t, built.agent)
  for (const { label, method, url, schema } of built.bodied) {
    const body = JSON.stringify(sample(schema))
    const line = await tlsLine(t, port)
    const head = `Host: x\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\n`
    line.write(`${method} ${url} HTTP/1.1\r\n${head}Content-Length: ${body.length + 1}\r\n\r\n${body}`)
    line.end()
    t.match(await line.next(), { status: 400 }, label)
    await line.closed()
  }
  t.same(snapshot(built), built.before)
})
