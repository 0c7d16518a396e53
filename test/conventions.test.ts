/** What every area keeps, checked over the folders, so that it need not be remembered. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { planGate } from '../core/licence/plan.ts'
import { buildAgent } from './build.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const areas = readdirSync(join(ROOT, 'plugins'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

function sources(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
}
const product = ['core', 'plugins', 'dataplane', 'scripts'].flatMap(sources)
const imports = (path: string) => Array.from(read(path).matchAll(/from '([^']+)'/g), ([, target = '']) => target)

for (const area of areas) {
  t.test(`area ${area} has its README, its declaration and nothing of another area`, async (t) => {
    const readme = read(`plugins/${area}/README.md`)
    for (const heading of ['## Routes', '## Events', '## Data plane', '## Examples']) t.match(readme, heading)
    t.ok(read(`plugins/${area}/index.ts`).split('\n').length <= 80, 'index.ts has at most 80 lines')
    for (const file of sources(`plugins/${area}`)) {
      const foreign = imports(file).filter((target) =>
        areas.some((other) => other !== area && target.includes(`../${other}/`)),
      )
      t.same(foreign, [], `${file} imports no other area`)
    }
    if (existsSync(join(ROOT, `plugins/${area}/tables.ts`))) {
      const tables = Array.from(
        read(`plugins/${area}/tables.ts`).matchAll(/sqliteTable\('([^']+)'/g),
        ([, name]) => name,
      )
      t.ok(
        tables.every((name) => name?.startsWith(`${area}_`)),
        'tables carry the area in front',
      )
    }
  })
}

t.test('rules and desired know neither Fastify nor the kernel nor files', async (t) => {
  for (const file of product.filter((path) => /plugins\/[^/]+\/(rules|desired)\.ts$/.test(path))) {
    const effects = imports(file).filter((target) =>
      /fastify|node:fs|node:net|dataplane\/(kernel|netlink|bpf)|session/.test(target),
    )
    t.same(effects, [], file)
  }
})

t.test('the core names no area, the data plane knows neither core nor areas', async (t) => {
  for (const file of sources('core').filter((path) => !path.includes('/test/'))) {
    t.same(
      imports(file).filter((target) => target.includes('plugins/')),
      [],
      file,
    )
  }
  for (const file of sources('dataplane').filter((path) => !path.includes('/test/'))) {
    t.same(
      imports(file).filter((target) => /(^|\/)(core|plugins)\//.test(target)),
      [],
      file,
    )
  }
})

t.test('processes are started in known places only', async (t) => {
  const allowed = /^(dataplane\/nft\/session|scripts\/|core\/cli\/)/
  const spawning = product.filter((path) => !path.includes('/test/') && /node:child_process/.test(read(path)))
  t.same(
    spawning.filter((path) => !allowed.test(path)),
    [],
  )
})

t.test('files stay small enough to be read', async (t) => {
  const long = product.filter((path) => read(path).split('\n').length > 301)
  t.same(long, [])
})

t.test(
  'conv-20 node-05 every route lies below /api/v1, says what it does and what it answers, and its area owns its path',
  async (t) => {
    const { agent, call } = await buildAgent(t)
    const listed = (await call('GET', '/api/v1/docs')).body.endpoints as {
      method: string
      path: string
      feature: string | null
    }[]
    for (const route of agent.routes) {
      if (route.method === 'HEAD' || route.url.startsWith('/control/')) continue
      const name = `${route.method} ${route.url}`
      t.match(route.url, /^\/api\/v1\//, name)
      t.ok(route.schema?.summary, `${name} has a summary`)
      if (!route.url.endsWith('/tls/pubkey')) t.ok(route.schema?.response, `${name} has a response schema`)
      t.ok(agent.states.owner(route.url.slice('/api/v1'.length)), `${name} lies on a prefix of its area`)
      const path = route.url.replace(/:(\w+)/g, '{$1}')
      const entry = listed.find((it) => it.path === path && it.method === route.method)
      t.ok(entry, `${name} is in the index`)
      t.equal(entry?.feature, planGate(String(route.method), route.url.slice('/api/v1'.length))?.title ?? null)
    }
  },
)

t.test('events that areas emit are declared by them', async (t) => {
  for (const area of areas) {
    const declared = new Set(Object.keys((await import(`../plugins/${area}/index.js`)).default.area.events ?? {}))
    const emitted = sources(`plugins/${area}`)
      .filter((path) => !path.includes('/test/'))
      .flatMap((path) => Array.from(read(path).matchAll(/type: '([a-z_]+\.[a-z_]+)'/g), ([, type]) => type))
    t.same(
      emitted.filter((type) => type === undefined || !declared.has(type)),
      [],
      area,
    )
  }
})
