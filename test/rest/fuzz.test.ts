/** Calls that nobody thought of: no 5xx, no crash. */

import t from 'tap'
import { TOKEN } from '../build.ts'
import { fc } from '../property.ts'
import { OWN, TENANT_KEY, tenantKeys } from './areas.ts'
import { ask, openAgent } from './ask.ts'

const P = '/api/v1'

const word = fc.oneof(
  fc.constantFrom('', '1', '0', 'default', 'batch', 'rules', '..', '.', '%2e%2e', '%00', '%zz', '%ff', OWN, 'health'),
  fc.string({ unit: fc.constantFrom(...'abz019-._~!$&\'()*+,;=:@%#?/\\|{}[]^`"<>') }),
  fc.string({ unit: 'binary', maxLength: 8 }).map((text) => encodeURIComponent(text)),
)
const method = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND')
const served = fc.constantFrom(
  ...['POST /rules', 'POST /rules', 'POST /rules/batch', 'PUT /rules/1', 'DELETE /rules/2', 'PUT /rules/default'],
  ...['GET /rules', 'GET /rules/1', 'GET /status', 'GET /docs'],
)
/** Method and path. inject() takes no other URLs; what goes over a wire besides is the matter of the listener's tests. */
const target = fc.oneof(
  { weight: 6, arbitrary: served.map((line): [string, string] => [line.split(' ')[0] ?? '', P + line.split(' ')[1]]) },
  {
    weight: 1,
    arbitrary: fc.tuple(
      method,
      fc.tuple(served, word).map(([line, tail]) => P + line.split(' ')[1] + tail),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(
      method,
      fc.array(word, { maxLength: 6 }).map((words) => `${P}/${words.join('/')}`),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(
      method,
      fc.array(word, { maxLength: 4 }).map((words) => `/${words.join('/')}`),
    ),
  },
)
const call = target.filter(([, path]) => URL.canParse(path, 'http://localhost'))
const headerText = fc.string({ unit: fc.constantFrom(...'abcXYZ019 ,;=/*."q-_~%'), maxLength: 60 })
const odd = fc.dictionary(
  fc.constantFrom(
    'accept',
    'accept-encoding',
    'content-type',
    'if-match',
    'range',
    'cookie',
    'origin',
    'x-forwarded-for',
    'x-node',
    'transfer-coding',
    'content-encoding',
    'accept-version',
    'x-http-method-override',
  ),
  fc.oneof(headerText, fc.constantFrom('gzip', 'application/json', 'application/json; charset=utf-16', 'text/plain')),
  { maxKeys: 3 },
)
const headers = fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: odd })
const rule = fc.record(
  {
    action: fc.oneof({ weight: 9, arbitrary: fc.constantFrom('accept', 'drop') }, fc.jsonValue({ maxDepth: 1 })),
    priority: fc.oneof(fc.integer(), fc.double(), fc.nat(1_000_000)),
    protocol: fc.constantFrom('tcp', 'udp', 'icmp', '', 'x'),
    source_ip: fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.ipV4Extended(),
      fc.string(),
      fc.tuple(fc.ipV6(), fc.nat(140)).map((parts) => parts.join('/')),
    ),
    dest_ip: fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.tuple(fc.ipV4(), fc.nat(40)).map((parts) => parts.join('/')),
    ),
    dest_port: fc.oneof(fc.nat(70_000), fc.double()),
    dest_port_max: fc.nat(70_000),
    interface: fc.string({ maxLength: 17 }),
    mac: fc.oneof(fc.constant('02:00:00:00:00:01'), fc.string()),
    level: fc.constantFrom('global', 'interface', 'flow', 'x'),
    comment: fc.string({ unit: 'binary', maxLength: 260 }),
  },
  { requiredKeys: ['action'] },
)
const sound = fc.record(
  {
    action: fc.constantFrom('accept', 'drop'),
    priority: fc.nat(1_000_000),
    source_ip: fc.tuple(fc.ipV4(), fc.nat(32)).map((parts) => parts.join('/')),
    dest_port: fc.integer({ min: 1, max: 65_535 }),
    mac: fc.constant('02-00-00-00-00-0A'),
    comment: fc.string({ unit: 'grapheme', maxLength: 60 }),
  },
  { requiredKeys: ['action'] },
)
const payload = fc.oneof(
  sound.map((value) => JSON.stringify(value)),
  rule.map((value) => JSON.stringify(value)),
  fc
    .record({
      rules: fc.array(fc.oneof(sound, rule, fc.jsonValue({ maxDepth: 2 })), { maxLength: 4 }),
      atomic: fc.boolean(),
    })
    .map((value) => JSON.stringify(value)),
  fc
    .record({ default_action: fc.oneof(fc.constantFrom('allow', 'deny'), fc.jsonValue({ maxDepth: 1 })) })
    .map((value) => JSON.stringify(value)),
  fc.json({ maxDepth: 4 }),
  fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
  fc
    .tuple(fc.json({ maxDepth: 2 }), fc.nat(), fc.string({ maxLength: 3 }))
    .map(([text, at, extra]) => text.slice(0, at % (text.length + 1)) + extra),
)
const token = fc.oneof(
  { weight: 10, arbitrary: fc.constant(TOKEN) },
  { weight: 1, arbitrary: fc.constantFrom(null, 'wrong', TENANT_KEY) },
)

t.test('conv-05 err-10 arbitrary calls get no 5xx, an error body with every refusal, and crash nothing', async (t) => {
  const built = await openAgent(t)
  built.agent.credentials.keys.set('tk', tenantKeys)
  const statuses = new Map<number, number>()
  const run = async (
    [verb, path]: [string, string],
    head: Record<string, string>,
    body: string | Buffer | undefined,
    credential: string | null,
  ) => {
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const options = { token: credential, headers: { ...type, ...head }, ...(body !== undefined && { payload: body }) }
    const { status, text, headers: told } = await ask(built.agent, verb, path, options)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (status >= 500) throw new Error(`${status} ${text}`)
    if (status >= 400 && verb !== 'HEAD' && !/^\{"error":".+"[,}]/.test(text))
      throw new Error(`${status} without an error: ${text}`)
    if (/\bat .*\.[jt]s:\d|SQLITE|node_modules/.test(text + JSON.stringify(told)))
      throw new Error(`tells too much: ${text}`)
  }
  await fc.assert(fc.asyncProperty(call, headers, fc.option(payload, { nil: undefined }), token, run), {
    numRuns: 3000,
    interruptAfterTimeLimit: 12_000,
    markInterruptAsFailure: false,
  })
  for (const status of [200, 201, 400, 404])
    t.ok(statuses.get(status), `${status}: ${statuses.get(status)} of ${[...statuses]}`)
  t.equal((await ask(built.agent, 'GET', `${P}/status`)).status, 200)
  t.same(
    built.logged.filter(({ level }) => Number(level) >= 50),
    [],
    'nothing was logged as an error',
  )
})
