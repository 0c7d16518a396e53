/** enable-19: a panel writes its file again and again, and what is set on the node stays; the real agent and stratumctl. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { type Node, node } from './node.ts'

requireRoot(t)

/** Asks until the answer is as expected, for at most ten seconds. */
async function until(ask: () => Promise<string>, expected: RegExp): Promise<string> {
  for (let last = '', end = Date.now() + 10_000; ; await wait(50)) {
    last = await ask()
    if (expected.test(last)) return last
    if (Date.now() > end) throw new Error(`${expected} does not come: ${last}`)
  }
}

function panelOf({ agent, ok }: Node) {
  const file = join(agent.stateDir, 'panel.json')
  return {
    inPlace: (content: object | string) =>
      writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content)),
    byRename(content: object) {
      writeFileSync(`${file}.new`, JSON.stringify(content))
      renameSync(`${file}.new`, file)
    },
    remove: () => rmSync(file),
    /** Resolves once `key` has the value. */
    says: (key: string, value: string) => until(() => ok(`config get ${key}`), new RegExp(`^${value}$`)),
  }
}

t.test('enable-19 whatever a panel does to its file, the token and what was set here stay as they are', async (t) => {
  const one = await node(t)
  const { ok, status, agent, overrides } = one
  const panel = panelOf(one)
  const token = (await ok('api-token generate')).split('\n')[0] ?? ''
  await agent.restart()
  await ok('config set api_rate_burst 77')
  const before = overrides.read()

  const sync = { api_token: 'panel', api_rate_burst: 5, api_rate_limit: 2000 }
  const deeds: [string, () => void, limit: string][] = [
    ['written', () => panel.inPlace(sync), '2000'],
    ['renamed over', () => panel.byRename({ ...sync, api_rate_limit: 3000 }), '3000'],
    ['written over', () => panel.inPlace({ ...sync, api_rate_limit: 4000 }), '4000'],
    ['removed', panel.remove, '1000'],
    ['renamed into place', () => panel.byRename({ api_rate_limit: 5000 }), '5000'],
  ]
  for (const [what, deed, limit] of deeds) {
    deed()
    await panel.says('api_rate_limit', limit)
    t.equal(await ok('config get api_rate_burst'), '77', `${what}: the local value wins`)
    t.equal(await status(token), 200, `${what}: the token is good`)
    t.equal(overrides.read(), before, `${what}: the local file is untouched`)
  }
  await agent.restart()
  t.equal(await status(token), 200, 'and at the next start')
  t.equal(await ok('config get api_rate_limit'), '5000')
  await ok('config unset api_rate_burst')
  panel.inPlace(sync)
  await panel.says('api_rate_burst', '5')
})

t.test(
  'enable-19 a broken file leaves in force what was, is told once in the log, and shows until it is mended',
  async (t) => {
    const one = await node(t)
    const { ok, agent, status } = one
    const panel = panelOf(one)
    panel.inPlace({ api_rate_limit: 2000 })
    await panel.says('api_rate_limit', '2000')
    const told = () => agent.logged.filter(({ about, level }) => about === 'config' && level === 'error').length
    for (const broken of ['{"api_rate_limit": 30', '{"api_rate_limit": "many"}', '']) {
      const before = told()
      panel.inPlace(broken)
      await until(async () => String(told()), new RegExp(`^${before + 1}$`))
      t.match(await ok('service status'), /^trouble: .*panel\.json.*; what it said before stays in force$/m, broken)
      t.match(await ok('status'), /^status +degraded$/m)
      t.equal(await ok('config get api_rate_limit'), '2000')
      t.equal(await status(agent.token), 200)
    }
    t.match(await ok('config set api_rate_burst 50'), /effective now/, 'local changes go on')
    await agent.restart()
    t.equal(await ok('config get api_rate_limit'), '2000', 'also at the next start')
    panel.byRename({ api_rate_limit: 6000 })
    await panel.says('api_rate_limit', '6000')
    await until(() => ok('service status'), /^((?!panel\.json).)*$/s)
  },
)
