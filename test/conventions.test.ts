/** What every area keeps, checked over the folders, so that it need not be remembered. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { LoadedArea } from '../core/area.ts'
import { planGate } from '../core/licence/plan.ts'
import { problemOf } from '../core/observe/reading.ts'
import { coreEvents } from '../core/state/core-events.ts'
import { buildAgent } from './build.ts'
import { readExposition } from './exposition.ts'

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
const product = ['core', 'plugins', 'dataplane', 'responder', 'scripts'].flatMap(sources)
const imports = (path: string) => Array.from(read(path).matchAll(/from '([^']+)'/g), ([, target = '']) => target)

const needsOf = new Map<string, readonly string[]>()
for (const area of areas) {
  needsOf.set(area, (await import(`../plugins/${area}/index.js`)).default.area.needs ?? [])
}

for (const area of areas) {
  t.test(`area ${area} has its README, its declaration and nothing of another area`, async (t) => {
    const readme = read(`plugins/${area}/README.md`)
    for (const heading of ['## Routes', '## Events', '## Data plane', '## Examples']) t.match(readme, heading)
    t.ok(read(`plugins/${area}/index.ts`).split('\n').length <= 80, 'index.ts has at most 80 lines')
    for (const file of sources(`plugins/${area}`)) {
      const foreign = imports(file).filter((target) =>
        areas.some((other) => other !== area && target.includes(`../${other}/`)),
      )
      // What an area offers to others stands in one file; whoever uses it says so in `needs`.
      const hidden = foreign.filter((target) => {
        const [, other = ''] = /([a-z0-9-]+)\/offers\.ts$/.exec(target) ?? []
        return !needsOf.get(area)?.includes(other)
      })
      t.same(hidden, [], `${file} imports no other area's inside`)
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
    const effects = imports(file).filter(
      (target) =>
        /fastify|node:fs|node:net|dataplane\/(kernel|netlink|bpf)|session/.test(target) &&
        !/\/entries\.ts$/.test(target),
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

t.test('which SQLite a Node has, and whose errors it throws, one module decides', async (t) => {
  const found = product.filter((path) =>
    /^import (?!type )[^\n]* from 'better-sqlite3/m.test(readFileSync(join(ROOT, path), 'utf8')),
  )
  t.same(found, [])
})

t.test('processes are started in known places only', async (t) => {
  const allowed = /^(dataplane\/(frr|nft|responder)\/session|plugins\/cluster\/etcd\/child|scripts\/|core\/cli\/)/
  const spawning = product.filter((path) => !path.includes('/test/') && /node:child_process/.test(read(path)))
  t.same(
    spawning.filter((path) => !allowed.test(path)),
    [],
  )
})

t.test(
  'nobody asks Node for the interfaces: it keeps them in a plain object, by names that others choose',
  async (t) => {
    const asking = product.filter(
      (path) => !path.includes('/test/') && /networkInterfaces/.test(read(path).replace(/^ *(\/?\*|\/\/).*$/gm, '')),
    )
    t.same(asking, [], 'dataplane/devices.ts has addressesOf()')
  },
)

t.test('every Debian package says what for, and what only a bench needs is not installed for the tests', async (t) => {
  const lines = read('scripts/packages.txt')
    .split('\n')
    .filter((line) => /^[a-z]/.test(line))
  const uses = new Map(lines.map((line) => [line.split(/\s+/)[0], /^\S+ +(run|build|test|bench) +\S/.exec(line)?.[1]]))
  for (const [name, use] of uses) t.ok(use, `${name}: run, build, test or bench`)
  for (const name of ['knot', 'knot-module-geoip', 'dnsperf']) t.equal(uses.get(name), 'bench', name)
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

/** A list has an array of objects that is always there; what is not a list is one thing. */
function isOneThing(schema: unknown): boolean {
  const {
    type,
    properties = {},
    required = [],
  } = (schema ?? {}) as {
    type?: string
    properties?: Record<string, { type?: string; items?: { type?: string } }>
    required?: string[]
  }
  return type === 'object' && !required.some((key) => properties[key]?.items?.type === 'object')
}

t.test('D18 a GET with a path parameter that answers one stored thing sends its ETag', async (t) => {
  const { agent } = await buildAgent(t)
  const single = agent.routes.filter(({ method, url, config, schema }) => {
    const answer = (schema?.response as Record<number, unknown> | undefined)?.[200]
    return method === 'GET' && url.includes('/:') && config?.volatile !== true && isOneThing(answer)
  })
  t.ok(single.some(({ url }) => url === '/api/v1/rules/:id'))
  for (const { url, handler } of single) {
    t.match(String(handler), /\bsendOne\(/, `${url} answers by sendOne, or says in its config that it is volatile`)
  }
})

t.test('D112 the core emits what it declares, and nothing else', async (t) => {
  const emitted = sources('core')
    .filter((path) => !path.includes('/test/'))
    .flatMap((path) => Array.from(read(path).matchAll(/type: '([a-z_]+\.[a-z_]+)'/g), ([, type = '']) => type))
    // Frames of the stream that are no events.
    .filter((type) => !type.startsWith('stream.'))
  t.same([...new Set(emitted)].sort(), Object.keys(coreEvents).sort())
})

t.test('what areas own in netlink is marked by a number that nobody else has', async (t) => {
  const owners = new Map<number, string>()
  for (const area of areas) {
    const owner = (await import(`../plugins/${area}/index.js`)).default.area.netlink?.owner
    if (owner === undefined) continue
    // Below are the numbers of routing daemons (/etc/iproute2/rt_protos) and the port costs that the kernel sets.
    t.ok(owner >= 200 && owner <= 255, `${area}: ${owner}`)
    t.equal(owners.get(owner), undefined, `${owner} is the number of ${area} alone`)
    owners.set(owner, area)
  }
})

t.test('an area follows only what it needs', async (t) => {
  for (const area of areas) {
    const { follows = {}, needs = [] } = (await import(`../plugins/${area}/index.js`)).default.area as LoadedArea
    t.same(
      Object.keys(follows).filter((other) => !needs.includes(other)),
      [],
      area,
    )
  }
})

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

t.test('every metric is named as Prometheus asks, explained, and stands in the table of its README', async (t) => {
  const { agent } = await buildAgent(t)
  const own = new Map<string, string>()
  for (const area of areas) {
    const { metrics = [] } = (await import(`../plugins/${area}/index.js`)).default.area as LoadedArea
    const readme = read(`plugins/${area}/README.md`)
    for (const { name } of metrics) {
      const full = `stratum_${area}_${name}`
      own.set(full, area)
      t.ok(readme.includes(`| \`${full}\``), `${full} is in plugins/${area}/README.md`)
    }
  }
  const core = read('plugins/node/README.md')
  const shown = readExposition(await agent.metrics.text()).families
  for (const { name, help, type, series } of shown.values()) {
    const area = own.get(name)
    const rest = name.slice(area === undefined ? 'stratum_'.length : `stratum_${area}_`.length)
    const labels = [...new Set(series.flatMap((one) => Object.keys(one.labels)))].filter((label) => label !== 'le')
    t.match(name, /^stratum_/)
    t.equal(problemOf({ name: rest, help, type: type === 'counter' ? type : 'gauge', labels }), undefined, name)
    t.match(help, /^[A-Z0-9].*\.$/, `${name} is explained in a sentence`)
    if (area === undefined) t.ok(core.includes(`\`${name}\``), `${name} is in plugins/node/README.md`)
  }
  // The plane in memory has no helper process; nothing else that the table promises is missing.
  const absent = Array.from(core.matchAll(/`(stratum_[a-z0-9_]+)`/g), ([, name = '']) => name).filter(
    (name) => !shown.has(name),
  )
  t.same(absent, ['stratum_plane_helper_restarts_total'])
})
