/**
 * Every example of every area's README is run, in order, against an agent: the answer must contain what the README shows,
 * and answers and events must be what the served documents say.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { fakePlane } from '../dataplane/plane.fake.ts'
import { buildAgent } from './build.ts'
import { servedDocuments } from './documents.ts'

const PLUGINS = join(import.meta.dirname, '..', '..', 'plugins')

interface Example {
  method: string
  path: string
  body?: unknown
  status: number
  answer?: object
}

/** Blocks marked `http`: request line, optional JSON body, blank line, status, optional JSON of the answer. */
function examples(markdown: string): Example[] {
  return Array.from(markdown.matchAll(/```http\n([\s\S]*?)```/g), ([, block = '']) => {
    const [request = '', response = ''] = block.split('\n\n')
    const [line = '', ...body] = request.split('\n')
    const [status = '', ...answer] = response.trim().split('\n')
    const [method = '', path = ''] = line.split(' ')
    return {
      method,
      path,
      status: Number(status),
      ...(body.join('') && { body: JSON.parse(body.join('\n')) }),
      ...(answer.join('') && { answer: JSON.parse(answer.join('\n')) }),
    }
  })
}

/** A node that has an address. */
function node() {
  const plane = fakePlane()
  const address = { version: 4 as const, index: 2, cidr: '192.0.2.1/24', scope: 0, permanent: true, unusable: false }
  const addresses = async () => [{ ...address, protocol: 0 }]
  return Object.assign(plane, { devices: { ...plane.devices, addresses } })
}

t.test('no field of any answer is null, but `feature` in the index', async (t) => {
  const { call } = await buildAgent(t, { plane: node() })
  const { openapi } = await servedDocuments(call)
  const nullable = [...fieldsOfNull(openapi, '')]
  t.same([...new Set(nullable)], ['feature'])
})

/** Names of properties whose schema admits null. */
function* fieldsOfNull(value: unknown, name: string): Iterable<string> {
  if (typeof value !== 'object' || value === null) return
  if ('type' in value && [value.type].flat().includes('null')) yield name
  for (const [key, inner] of Object.entries(value)) {
    const isName = !Array.isArray(value) && !/^(anyOf|oneOf|allOf|properties|items|schema)$/.test(key)
    yield* fieldsOfNull(inner, isName ? key : name)
  }
}

for (const area of readdirSync(PLUGINS)) {
  const readme = join(PLUGINS, area, 'README.md')
  if (!existsSync(readme)) continue
  t.test(`examples of ${area}/README.md`, async (t) => {
    const { agent, call } = await buildAgent(t, { plane: node(), config: { vxlan_local_ip: '192.0.2.1' } })
    const { answerProblems, frameProblems } = await servedDocuments(call)
    const found = examples(readFileSync(readme, 'utf8'))
    t.ok(found.length > 0, 'there are examples')
    for (const { method, path, body, status, answer } of found) {
      const got = await call(method, path, body)
      t.equal(got.status, status, `${method} ${path}: ${got.text}`)
      if (answer) t.match(got.body, answer, `${method} ${path} answers as shown`)
      t.same(answerProblems(method, path, got), [], `${method} ${path} answers as documented`)
    }
    for (const event of agent.outbox.after(0, 1000)) t.same(frameProblems(event), [], `event ${event.type}`)
  })
}
