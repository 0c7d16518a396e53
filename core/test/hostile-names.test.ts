/** Names that every object of JavaScript answers to, given to the agent by callers and by whoever names a device of the node. */
import t from 'tap'
import { startAgent } from '../../test/agent.ts'
import { type Operation, servedDocuments } from '../../test/documents.ts'
import { PATIENCE } from '../../test/kernel-features.ts'
import { netns, requireRoot } from '../../test/netns.ts'

interface Schema {
  type?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  minimum?: number
}

const NAMES = Object.getOwnPropertyNames(Object.prototype)
const CONFIG = { api_rate_limit: '10000000', api_rate_burst: '1000000' }
/** Takes no name, and would take the rest of the test its time. */
const SLOW = /cluster\/(join|leave)/

if (requireRoot(t)) {
  t.setTimeout(120_000 * PATIENCE)
  t.test(
    'no name of Object.prototype in a body or a path makes a 500, nor keeps the agent from its next start',
    async (t) => {
      const agent = await startAgent(t, { ns: netns(t), config: CONFIG })
      const { openapi, operations } = await servedDocuments(agent.call)
      const asked = { calls: 0 }
      t.setTimeout(100_000 * PATIENCE)
      for (const [line, operation] of operations) {
        const [method = '', path = ''] = line.split(' ')
        if (!['POST', 'PUT'].includes(method) || SLOW.test(path)) continue
        const schema = resolved(bodyOf(operation), openapi) as Schema | undefined
        const plain = path.replace(/\{\w+\}/g, '1')
        for (const name of NAMES) {
          const bodies = schema === undefined ? [] : variants(schema, name)
          const named = path.includes('{') ? [[path.replace(/\{\w+\}/g, name), sample(schema ?? {})] as const] : []
          const calls = [...named, ...bodies.map((body) => [plain, body] as const)]
          for (const [url, body] of calls) {
            const { status, text } = await agent.call(method, url, body)
            asked.calls++
            if (status === 500) t.fail(`${method} ${url} ${JSON.stringify(body)}: ${text}`)
          }
        }
      }
      t.ok(asked.calls > 1000, `${asked.calls} calls`)
      t.equal((await agent.call('GET', '/api/v1/health')).status, 200)
      await agent.restart()
      t.equal((await agent.call('POST', '/api/v1/rules', { action: 'drop', dest_port: 9 })).status, 201)
      t.same(
        agent.logged.filter(({ msg }) => msg === 'a request failed'),
        [],
      )
    },
  )

  t.test('devices of such names, made by others, cost nothing', async (t) => {
    const ns = netns(t)
    const names = NAMES.filter((name) => name.length <= 15)
    for (const [at, name] of names.entries()) {
      ns.run('ip', 'link', 'add', name, 'type', 'bridge')
      ns.run('ip', 'address', 'add', `198.18.7.${at + 1}/32`, 'dev', name)
      ns.run('ip', 'link', 'set', name, 'up')
    }
    const agent = await startAgent(t, { ns, rest: true })
    t.equal((await agent.call('GET', '/api/v1/status')).status, 200, 'REST has a certificate and serves')
    for (const path of ['/bridges', '/nics', '/routes', '/vlans', '/bonds', '/networks', '/metrics']) {
      t.not((await agent.call('GET', `/api/v1${path}`)).status, 500, path)
    }
    t.equal((await agent.call('POST', '/api/v1/bridges', { name: 'br-x' })).status, 201)
    t.equal((await agent.call('POST', '/api/v1/routed-addresses', { cidr: '8.8.4.0/31' })).status, 201)
    t.equal((await agent.call('POST', '/api/v1/rules', { action: 'drop', dest_port: 9 })).status, 201)
    await agent.restart()
    t.equal((await agent.call('GET', '/api/v1/rules')).status, 200)
    t.same(
      agent.logged.filter(({ level }) => level === 'error'),
      [],
    )
  })
}

const bodyOf = (operation: Operation) => operation.requestBody?.content['application/json']?.schema

/** With what `$ref` names in its place. */
function resolved(schema: unknown, document: object): unknown {
  if (Array.isArray(schema)) return schema.map((part) => resolved(part, document))
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref } = schema as { $ref?: string }
  if ($ref !== undefined) {
    const found = $ref
      .slice(2)
      .split('/')
      .reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], document)
    return resolved(found, document)
  }
  return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, resolved(part, document)]))
}

/** Something that the schema takes, mostly. */
function sample(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum.findLast((value) => value !== '')
  if (schema.anyOf) return sample(schema.anyOf.at(-1) ?? {})
  if (schema.type === 'integer' || schema.type === 'number') return Math.max(1, schema.minimum ?? 1)
  if (schema.type === 'boolean') return true
  if (schema.type === 'array') return [sample(schema.items ?? {})]
  if (schema.type !== 'object') return '10.77.0.1'
  return Object.fromEntries((schema.required ?? []).map((key) => [key, sample(schema.properties?.[key] ?? {})]))
}

/** Bodies in which one field each, however deep, has `name` for a value, and one with such a key. */
function variants(schema: Schema, name: string): unknown[] {
  if (schema.anyOf) return schema.anyOf.flatMap((part) => variants(part, name))
  if (schema.type === 'string') return [name]
  if (schema.type === 'array') return variants(schema.items ?? {}, name).map((value) => [value])
  if (schema.type !== 'object') return []
  const whole = sample(schema) as object
  const deeper = Object.entries(schema.properties ?? {}).flatMap(([key, part]) =>
    variants(part, name).map((value) => ({ ...whole, [key]: value })),
  )
  return [...deeper, JSON.parse(`{"${name}":{"${name}":1}}`)]
}
