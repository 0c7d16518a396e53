/** When a key was last used: noted for every use, written seldom. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import { openLastUsed } from '../last-used.ts'
import { freeze, tenantsArea } from './area.ts'

t.test('D105 the last use is noted, also while frozen, and costs a call no write', async (t) => {
  const built = await tenantsArea(t)
  const { agent, as, add, mint, ok } = built
  const own = await add()
  const [{ secret, key }] = [await mint(own), await mint(own)]
  freeze(built)
  const at = new Date(built.clock.ms).toISOString()
  const commits = () => agent.store.read.get<{ data_version: number }>(sql`pragma data_version`).data_version
  const before = commits()
  for (let n = 0; n < 50; n++) await as(secret, 'GET', `/tenant/${own.id}`)
  t.equal(commits(), before, 'fifty calls wrote nothing')
  const signal = AbortSignal.timeout(20_000)
  while (commits() === before) {
    signal.throwIfAborted()
    await new Promise((wait) => setTimeout(wait, 20))
  }
  const { keys } = (await ok('GET', `/tenant/${own.id}/keys`)) as { keys: { id: string; last_used_at?: string }[] }
  for (const one of keys) t.equal(one.last_used_at, one.id === key.id ? at : undefined)
  t.notOk(
    agent.outbox.after(0, 1000).some(({ type }) => type === 'tenant_key.updated'),
    'nobody is told',
  )
})

t.test('D105 uses are written together, at most once a minute a key, and the rest when the agent stops', async (t) => {
  const written: string[][] = []
  const failing = { now: false }
  const warned: unknown[] = []
  const uses = openLastUsed(
    {
      log: { warn: (problem: unknown) => void warned.push(problem) },
      async write(noted) {
        if (failing.now) throw new Error('disk full')
        written.push([...noted].map(([id, at]) => `${id} ${at.slice(14, 19)}`))
      },
    },
    0,
  )
  const at = (minute: string) => `2030-01-01T00:${minute}:00.000Z`
  uses.note({ id: 'a', lastUsedAt: '' }, at('01'))
  uses.note({ id: 'b', lastUsedAt: at('00') }, at('01'))
  uses.note({ id: 'c', lastUsedAt: '2030-01-01T00:00:00.001Z' }, at('01'))
  uses.note({ id: 'a', lastUsedAt: '' }, at('01'))
  await new Promise((wait) => setTimeout(wait, 20))
  t.same(written, [['a 01:00', 'b 01:00']])
  failing.now = true
  uses.note({ id: 'a', lastUsedAt: '' }, at('02'))
  await new Promise((wait) => setTimeout(wait, 20))
  t.equal(warned.length, 1)
  failing.now = false
  uses.note({ id: 'a', lastUsedAt: '' }, at('03'))
  await uses.stop()
  uses.note({ id: 'b', lastUsedAt: '' }, at('04'))
  await uses.stop()
  t.same(written.slice(1), [['a 03:00']])
})
