/** Dashboard, alert rules and scrape example of `templates/`, against a running agent and a real Prometheus. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type RunningAgent, startAgent } from '../agent.ts'
import { scratch } from '../build.ts'
import { readExposition } from '../exposition.ts'
import { type Netns, netns, requireRoot } from '../netns.ts'
import { requireProgram } from '../required.ts'

const ROOT = join(import.meta.dirname, '../../..')
const RULES = join(ROOT, 'templates/prometheus/stratum-node.rules.yml')
const SCRAPE = join(ROOT, 'templates/prometheus/stratum-node.scrape.yml')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: Record<string, string>
}
interface Panel {
  id: number
  type: string
  title: string
  gridPos: { x: number; y: number; w: number; h: number }
  datasource?: object
  targets?: { expr: string }[]
}
// It brings no types.
const { load } = (await import('js-yaml' as string)) as { load(text: string): unknown }
const rules = (load(readFileSync(RULES, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)
const dashboard: {
  panels: Panel[]
  templating: { list: { name: string; query: unknown }[] }
  annotations: { list: { expr: string }[] }
} = JSON.parse(read('templates/grafana/stratum-node.json'))
const shown = [
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
]
/** Metrics that an expression names, those of a histogram by its own name. */
const named = (expr: string) =>
  Array.from(expr.matchAll(/\bstratum_[a-z0-9_]+/g), ([name]) =>
    name.replace(/_seconds_(bucket|sum|count)$/, '_seconds'),
  )
/** As Grafana would ask. */
const asked = (expr: string) => expr.replaceAll('$__rate_interval', '1m').replaceAll('$node', '.*')

function promtool(t: Test, ...args: string[]): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8', cwd: ROOT })
  t.equal(status, 0, stdout + stderr)
}

t.test('promtool agrees with the rules, and each alert fires where it shall', async (t) => {
  if (!requireProgram(t, 'promtool')) return
  promtool(t, 'check', 'rules', RULES)
  promtool(t, 'test', 'rules', join(ROOT, 'test/watch/stratum-node.rules.test.yml'))
})

t.test('each alert is tested, and says where and what', async (t) => {
  const cases = read('test/watch/stratum-node.rules.test.yml')
  for (const { alert, labels, annotations } of rules) {
    t.ok(cases.includes(`- name: ${alert}\n`), `${alert} is tested`)
    t.match(labels.severity, /^(critical|warning|info)$/)
    t.ok((annotations.summary ?? '').includes('$labels.instance') && (annotations.description ?? '').length > 10, alert)
  }
  t.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length)
})

t.test('the dashboard is whole: ids are unique, nothing overlaps, all of it asks the chosen source', async (t) => {
  const { panels } = dashboard
  t.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
  for (const [at, { gridPos: a, title, type, datasource, targets }] of panels.entries()) {
    t.ok(a.x + a.w <= 24, title)
    for (const { gridPos: b, title: other } of panels.slice(at + 1)) {
      const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y
      t.ok(apart, `${title} and ${other} lie apart`)
    }
    if (type === 'row') continue
    t.same(datasource, { type: 'prometheus', uid: '$' + '{source}' }, title)
    t.ok((targets ?? []).length > 0, title)
    for (const { expr } of targets ?? []) t.ok(expr.includes('instance=~"$node"'), `${title}: ${expr}`)
  }
})

t.test('a Prometheus scrapes an agent, evaluates the rules and answers the dashboard', async (t) => {
  if (!requireRoot(t) || !requireProgram(t, 'prometheus')) return
  const ns = netns(t)
  const agent = await startAgent(t, { ns })
  await give(agent)

  const metrics = readExposition((await agent.call('GET', '/api/v1/metrics')).text)
  const readmes = readdirSync(join(ROOT, 'plugins'))
    .map((area) => read(`plugins/${area}/README.md`))
    .join('\n')
  const names = new Set([...shown, ...rules.map(({ expr }) => expr)].flatMap(named))
  names.delete('stratum_')
  t.ok(names.size > 40, `${names.size} metrics`)
  for (const name of names) {
    t.ok(metrics.families.has(name), `${name} is in GET /metrics`)
    t.ok(readmes.includes(`\`${name}\``), `${name} is in a README`)
  }

  const prometheus = await startPrometheus(t, ns, agent)
  const { ask, values } = prometheus
  // Rates need two scrapes.
  while ((await values('count_over_time(stratum_build_info[5m]) >= 3'))[0]?.length === 0) await wait(200)
  t.match(await values('up'), [[{ metric: { job: 'stratum', instance: '127.0.0.1:7070' }, value: [/./, '1'] }]])
  await values(...shown.map(asked))
  // What exists now is really shown: a label that nobody has would show nothing for ever.
  const steady = shown.filter((expr) => !/rate\(|increase\(|changes\(|topk|== 0|> 0/.test(expr))
  const answers = await values(...steady.map(asked))
  for (const [at, expr] of steady.entries()) t.ok((answers[at] ?? []).length > 0, `${expr} shows something`)
  const selected = [...rules.map(({ expr }) => expr), ...shown].flatMap((expr) =>
    Array.from(asked(expr).matchAll(/\b(stratum_[a-z0-9_]+\{[^}]+\})/g), ([, selector = '']) => selector),
  )
  const found = await values(...selected)
  for (const [at, selector] of selected.entries()) t.ok((found[at] ?? []).length > 0, `${selector} exists`)

  const evaluated = async () => {
    const [all] = (await ask('rules')) as {
      groups: { rules: { name: string; health: string; lastError?: string }[] }[]
    }[]
    return all?.groups.flatMap((group) => group.rules) ?? []
  }
  while ((await evaluated()).some(({ health }) => health === 'unknown')) await wait(200)
  const states = await evaluated()
  for (const { name, health, lastError } of states) t.equal(health, 'ok', `${name}: ${lastError ?? 'fine'}`)
  t.equal(states.length, rules.length)
  const firing = async () => JSON.stringify(await values('ALERTS{alertstate="firing"}'))
  // An evaluation of 30 days ends in less than 30 at once.
  while (!(await firing()).includes('StratumLicenceEnds')) await wait(200)
  t.notMatch(await firing(), /critical/)
})

/** Something of each kind, so that series with labels exist. */
async function give({ call }: RunningAgent): Promise<void> {
  await call('POST', '/api/v1/rules', { action: 'accept', protocol: 'icmp' })
  await call('POST', '/api/v1/lb', { id: 'web', frontend_ip: '192.0.2.80', frontend_port: 80, algorithm: 'maglev' })
}

interface Prometheus {
  /** One answer a path. @throws Error when one of them is refused */
  ask(...paths: string[]): Promise<unknown[]>
  values(...exprs: string[]): Promise<unknown[][]>
}

async function startPrometheus(t: Test, ns: Netns, agent: RunningAgent): Promise<Prometheus> {
  const dir = scratch(t, 'prometheus')
  const key = join(dir, 'stratum.key')
  const { body } = await agent.call('POST', '/control/v1/apikeys', { label: 'prometheus' })
  writeFileSync(key, String(body.key), { mode: 0o600 })
  const config = readFileSync(SCRAPE, 'utf8')
    .replace('/etc/prometheus/stratum-node.rules.yml', RULES)
    .replace('/etc/prometheus/stratum.key', key)
    .replace('/etc/prometheus/stratum.pem', join(agent.stateDir, 'tls/cert.pem'))
    .replace('node-1.example:7070', '127.0.0.1:7070')
    .replace('scrape_interval: 15s', 'scrape_interval: 1s')
  const file = join(dir, 'prometheus.yml')
  writeFileSync(file, `global: { evaluation_interval: 1s, scrape_timeout: 1s }\n${config}`)
  promtool(t, 'check', 'config', file)
  const args = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    '--web.listen-address=127.0.0.1:9090',
  ]
  const child = ns.spawn('prometheus', args)
  const ready = new Promise<void>((resolve, reject) => {
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said += text
      if (said.includes('Server is ready')) resolve()
    })
    child.once('exit', (code) => reject(new Error(`prometheus ended (${code}): ${said}`)))
  })
  await ready
  // One process for many questions.
  const ask = async (...paths: string[]): Promise<unknown[]> => {
    const urls = paths.map((path) => `http://127.0.0.1:9090/api/v1/${path}`)
    const lines = ns
      .run('curl', '-sS', '-w', '\\n', ...urls)
      .trimEnd()
      .split('\n')
    return lines.map((line, at) => {
      const answer = JSON.parse(line)
      if (answer.status !== 'success') throw new Error(`${paths[at]}: ${answer.error}`)
      return answer.data
    })
  }
  return {
    ask,
    async values(...exprs) {
      const answers = await ask(...exprs.map((expr) => `query?query=${encodeURIComponent(expr)}`))
      return answers.map((answer) => (answer as { result: unknown[] }).result)
    },
  }
}
