/** The OpenAPI document: valid, complete, and what the agent really does. */
import { gunzipSync } from 'node:zlib'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { Type } from 'typebox'
import { buildAgent } from '../../../test/build.ts'
import { schemasOf, servedDocuments } from '../../../test/documents.ts'
import { CLUSTER_ROUTES, GATED_ROUTES, type ProbeRoute, probe, TENANT_ROUTES } from '../../../test/rest/areas.ts'
import { ask, openAgent, UNHURRIED } from '../../../test/rest/ask.ts'
import { openComponents } from '../components.ts'
import { operationId } from '../openapi.ts'

const P = '/api/v1'
const OPENAPI = `${P}/docs?format=openapi`

/** Routes of every kind: of tenants, behind a plan, with and without a body, with text for an answer. */
async function manyRoutes(t: Parameters<typeof openAgent>[0]) {
  const Lamp = Type.Object({ id: Type.Integer(), colour: Type.String() }, { title: 'Lamp' })
  const lamps: ProbeRoute[] = [
    { method: 'GET', path: '/lamps', response: { 200: Type.Object({ lamps: Type.Array(Lamp) }) } },
    { method: 'GET', path: '/lamps/:id', response: { 200: Lamp } },
    { method: 'POST', path: '/lamps', body: Type.Object({ colour: Type.String() }), response: { 201: Lamp } },
    { method: 'PUT', path: '/lamps/:id', strict: true, body: Type.Object({}), response: { 200: Lamp } },
  ]
  const plugin = probe(
    'rest',
    ['/rest', '/lamps'],
    [...lamps, ...TENANT_ROUTES, ...GATED_ROUTES, ...CLUSTER_ROUTES],
  ).plugin
  const built = await openAgent(t, { extraAreas: [plugin] })
  return { ...built, documents: await servedDocuments(built.call) }
}

t.test('node-04 node-05 D33 the OpenAPI document is valid OpenAPI 3.1, its schemas valid JSON Schema', async (t) => {
  const { documents } = await manyRoutes(t)
  const { openapi } = documents
  t.match(openapi.openapi, /^3\.1\./)
  const validator = new Validator()
  const { valid, errors } = await validator.validate(structuredClone(openapi) as unknown as Record<string, unknown>)
  t.ok(valid, JSON.stringify(errors))
  t.equal(validator.version, '3.1')
  const compile = schemasOf(openapi, Ajv2020)
  const schemas = [...schemasIn(openapi)]
  t.ok(schemas.length > 20)
  for (const schema of schemas) t.ok(compile(schema), JSON.stringify(schema).slice(0, 80))
})

/** All schemas of parameters, requests and answers. */
function* schemasIn(value: unknown): Iterable<object> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'schema') yield inner
    else yield* schemasIn(inner)
  }
}

t.test('node-04 node-05 routes, index and OpenAPI document agree, whichever one starts from', async (t) => {
  const { agent, call, documents } = await manyRoutes(t)
  const named = (method: string, url: string) => `${method} ${url.replace(/:([A-Za-z_]+)/g, '{$1}')}`
  const registered = agent.routes
    .filter(({ url }) => !url.startsWith('/control/'))
    .flatMap(({ method, url }) => [method].flat().map((one) => named(one, url)))
    .filter((line) => !line.startsWith('HEAD '))
    .sort()
  const endpoints = (await call('GET', `${P}/docs`)).body.endpoints as Record<string, string | number | null>[]
  const documented = documents.operations.map(([line]) => line)
  t.same([...documented].sort(), registered)
  t.same(endpoints.map(({ method, path }) => `${method} ${path}`).sort(), registered)
  t.notOk(JSON.stringify(documents.openapi).includes('/control'), 'the control socket is not for strangers')

  for (const [line, operation] of documents.operations) {
    const [method = '', path = ''] = line.split(' ')
    const endpoint = endpoints.find((one) => one.method === method && one.path === path)
    t.match(operation, { summary: endpoint?.summary, tags: [endpoint?.area], 'x-auth': endpoint?.auth }, line)
    t.equal(operation['x-feature'] ?? null, endpoint?.feature, line)
    t.ok(String(endpoint?.success) in operation.responses, line)
    const url = path.replace(/\{[a-z_]+\}/g, '1')
    const stranger = await ask(agent, method, url, { token: null })
    t.equal(stranger.status === 401, operation.security.length > 0, `${line} needs a credential or not`)
    const answer = await ask(agent, method, url, { json: {} })
    t.not(answer.body.error, 'no such path', line)
    const names = Array.from(path.matchAll(/\{([a-z_]+)\}/g), ([, name]) => name)
    const inPath = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path')
    t.same(
      inPath.map(({ name }) => name),
      names,
      `${line} has its parameters`,
    )
  }
})

t.test('every tag of the areas says what it is for, in a sentence of its own', async (t) => {
  const { call } = await buildAgent(t, { config: UNHURRIED })
  const { openapi, operations } = await servedDocuments(call)
  t.same(openapi.tags.map(({ name }) => name).sort(), [...new Set(operations.flatMap(([, { tags }]) => tags))].sort())
  t.ok(openapi.tags.length > 20, 'all areas are there')
  for (const { name, description } of openapi.tags) t.match(description ?? '', /^[A-Z].{15,}\.$/, name)
  t.equal(new Set(openapi.tags.map(({ description }) => description)).size, openapi.tags.length)
})

t.test('every operation has a name of its own that follows from method and path', async (t) => {
  const { documents } = await manyRoutes(t)
  const names = documents.operations.map(([, { operationId }]) => operationId)
  t.equal(new Set(names).size, names.length)
  for (const name of names) t.match(name, /^(get|post|put|delete)[A-Z][A-Za-z0-9]*$/)
  const table = {
    'GET /api/v1/rules': 'getRules',
    'GET /api/v1/rules/{id}': 'getRulesById',
    'PUT /api/v1/rules/default': 'putRulesDefault',
    'DELETE /api/v1/routed-addresses/{id}': 'deleteRoutedAddressesById',
    'PUT /api/v1/lb/{id}/backends/{bid}/drain': 'putLbByIdBackendsByBidDrain',
  }
  for (const [line, name] of Object.entries(table)) {
    const [method = '', path = ''] = line.split(' ')
    t.equal(operationId(method, path), name)
  }
})

t.test('what is sent and what is answered stands in the document as it is validated', async (t) => {
  const { documents } = await manyRoutes(t)
  const { paths, components } = documents.openapi
  t.match(paths[`${P}/rules`]?.post, {
    operationId: 'postRules',
    tags: ['firewall'],
    security: [{ bearer: [] }],
    requestBody: {
      required: true,
      content: { 'application/json': { schema: { required: ['action'], additionalProperties: false } } },
    },
    responses: { 201: { headers: { 'X-Event-Id': {}, 'X-Request-Id': {} } }, 400: {}, 409: {}, 415: {} },
  })
  t.notOk(paths[`${P}/rules`]?.get?.responses[409], 'a read conflicts with nothing')
  t.match(paths[`${P}/rules`]?.get?.parameters, [{ name: 'chain', in: 'query', schema: { type: 'string' } }])
  t.match(paths[`${P}/rules/{id}`]?.get?.responses, { 200: { headers: { ETag: {} } }, 304: {}, 404: {}, 412: {} })
  t.match(paths[`${P}/rules/batch`]?.post?.responses[400], { content: {} }, 'a refusal of its own shape')
  t.match(paths[`${P}/tls/pubkey`]?.get, { security: [], responses: { 200: { content: { 'text/plain': {} } } } })
  t.match(paths[`${P}/lb/{id}`]?.get, { 'x-feature': 'Load Balancer', description: /Load Balancer/ })
  t.match(paths[`${P}/tenant/{id}/quota`]?.get, { 'x-auth': 'tenant' })
  t.match(components.schemas, {
    Lamp: { properties: { colour: { type: 'string' } } },
    Problem: { required: ['error'] },
  })
  t.match(paths[`${P}/lamps`]?.post?.responses[201]?.content, {
    'application/json': { schema: { $ref: '#/components/schemas/Lamp' } },
  })
  t.ok(paths[`${P}/lamps`]?.post?.responses[201]?.headers?.['X-Ignored-Fields'])
  t.notOk(paths[`${P}/lamps/{id}`]?.put?.responses[200]?.headers?.['X-Ignored-Fields'], 'a strict one ignores nothing')
})

t.test('ids beyond 32 bits are told as int64, and a 503 by its field', async (t) => {
  const { call } = await openAgent(t, { only: ['node', 'ipam'] })
  const { paths, components } = (await servedDocuments(call)).openapi
  t.match(paths[`${P}/ipam/pools`]?.post?.responses[201]?.content?.['application/json']?.schema, {
    properties: { pool: { properties: { id: { type: 'integer', format: 'int64' } } } },
  })
  t.match(components.responses?.NotAvailable?.headers, { 'Stratum-Reason': {}, 'X-Request-Id': {} })
})

t.test('node-05 what the agent answers is what the document says, refusals included', async (t) => {
  const { agent, call } = await openAgent(t, { config: { max_rules: '3' } })
  const documents = await servedDocuments(call)
  const drop = { action: 'drop', source_ip: '192.0.2.0/24', comment: 'é' }
  const calls: [number, string, string, unknown?, Record<string, string>?][] = [
    [200, 'GET', '/health'],
    [200, 'GET', '/status'],
    [200, 'GET', '/license'],
    [200, 'GET', '/docs'],
    [200, 'GET', '/docs?format=openapi'],
    [200, 'GET', '/docs?format=asyncapi'],
    [400, 'GET', '/docs?format=swagger'],
    [404, 'GET', '/tls/pubkey'],
    [200, 'GET', '/rules'],
    [201, 'POST', '/rules', drop],
    [400, 'POST', '/rules', { ...drop, colour: 'red' }],
    [415, 'POST', '/rules', drop, { 'content-type': 'text/plain' }],
    [200, 'GET', '/rules'],
    [200, 'GET', '/rules/1'],
    [304, 'GET', '/rules/1', undefined, { 'if-none-match': '*' }],
    [412, 'DELETE', '/rules/1', undefined, { 'if-match': '"other"' }],
    [200, 'PUT', '/rules/1', { action: 'accept' }],
    [404, 'GET', '/rules/1'],
    [200, 'DELETE', '/rules/2'],
    [200, 'GET', '/rules/default'],
    [200, 'PUT', '/rules/default', { default_action: 'deny' }],
    [200, 'POST', '/rules/batch', { rules: [drop, {}] }],
    [400, 'POST', '/rules/batch', { rules: [drop, {}], atomic: true }],
    [200, 'POST', '/rules/batch', { rules: [drop, drop] }],
    [409, 'POST', '/rules', drop],
    [401, 'GET', '/rules', undefined, { authorization: 'Bearer wrong' }],
  ]
  for (const [status, method, path, body, headers] of calls) {
    const answer = await call(method, `${P}${path}`, body, headers)
    t.equal(answer.status, status, `${method} ${path}: ${answer.text.slice(0, 200)}`)
    t.same(documents.answerProblems(method, `${P}${path}`, answer), [], `${method} ${path} ${status}`)
  }
  agent.publicKey = () => 'PEM'
  const pem = await call('GET', `${P}/tls/pubkey`)
  t.same(documents.answerProblems('GET', `${P}/tls/pubkey`, pem), [])
  agent.states.turnOff('firewall', 'nft is not there')
  const off = await call('GET', `${P}/rules`)
  t.same([off.status, documents.answerProblems('GET', `${P}/rules`, off)], [503, []])
})

t.test('the comparison itself finds what is wrong', async (t) => {
  const { call } = await openAgent(t)
  const { answerProblems } = await servedDocuments(call)
  const good = await call('GET', `${P}/health`)
  const made = (change: object) => answerProblems('GET', `${P}/health`, { ...good, ...change })
  t.match(made({ body: { status: 'ill' } }), [/uptime/, /status/])
  t.match(made({ status: 204 }), ['204 is not documented'])
  t.match(made({ headers: { ...good.headers, etag: '"x"' } }), ['header ETag is sent and not documented'])
  t.match(made({ headers: { 'content-type': good.headers['content-type'] } }), [/X-Request-Id is documented and not/])
  t.match(made({ headers: { ...good.headers, 'content-type': 'text/html' } }), [/text\/html/])
  t.match(answerProblems('GET', `${P}/nowhere`, good), [/nowhere is not documented/])
})

t.test('D15 D33 format is judged; the document is public, compressed, and made once', async (t) => {
  const { agent } = await openAgent(t)
  const get = (url: string, headers = {}) => ask(agent, 'GET', url, { token: null, headers })
  for (const bad of ['format=', 'format=yaml', 'format=OpenAPI', 'format=openapi&format=json', 'format[]=openapi']) {
    const { status, body } = await get(`${P}/docs?${bad}`)
    const understood = bad.startsWith('format[')
    t.equal(status, understood ? 200 : 400, bad)
    if (!understood) t.match(body.error, /^format: /, bad)
  }
  const index = await get(`${P}/docs`)
  t.equal((await get(`${P}/docs?format=json`)).text, index.text)
  const first = await get(OPENAPI)
  t.match(first.headers, { 'content-type': /^application\/json/, vary: 'accept-encoding' })
  agent.routes.push({ method: 'GET', url: `${P}/late`, handler: () => {} })
  t.equal((await get(OPENAPI)).text, first.text)
  const zipped = await agent.app.inject({ url: OPENAPI, headers: { 'accept-encoding': 'gzip' } })
  t.equal(zipped.headers['content-encoding'], 'gzip')
  t.equal(gunzipSync(zipped.rawPayload).toString(), first.text)
})

t.test('a title that is a name makes a schema a component; one name cannot mean two things', async (t) => {
  const { place, named } = openComponents()
  const Lamp = Type.Object({ title: Type.String(), default: Type.Boolean({ default: true }) }, { title: 'Lamp' })
  t.same(place(Type.Array(Lamp)), { type: 'array', items: { $ref: '#/components/schemas/Lamp' } })
  t.same(place(Type.Object({ lamp: Lamp }, { title: 'a lamp' })), {
    type: 'object',
    title: 'a lamp',
    required: ['lamp'],
    properties: { lamp: { $ref: '#/components/schemas/Lamp' } },
  })
  t.match(named, { Lamp: { properties: { title: { type: 'string' }, default: { default: true } } } })
  t.throws(() => place(Type.String({ title: 'Lamp' })), /two schemas have the title Lamp/)
})
