/** An area whose entries follow from rows of another: rendered with each change of those, and with no other. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { buildArea } from '../../../test/build.ts'
import { type Db, defineArea } from '../../area.ts'
import { inOrder } from '../../areas.ts'

const ids = (db: Db, id: number) =>
  db.all<{ id: number; action: string }>(sql`select id, action from firewall_rules where id = ${id}`)

/** An element for each rule of the firewall. */
function follower(asked: string[]) {
  const entry = ({ id, action }: { id: number; action: string }) => ({
    ...{ kind: 'element' as const, key: `echo/${id}`, set: 'echo', element: String(id), value: action },
  })
  return defineArea(import.meta.url, {
    name: 'echo',
    prefixes: ['/echo'],
    needs: ['firewall'],
    follows: { firewall: (_db, id) => (id.startsWith('rule/') ? [id] : []) },
    routes() {},
    desired: {
      all: (db) => db.all<{ id: number; action: string }>(sql`select id, action from firewall_rules`).map(entry),
      one(db, id) {
        asked.push(id)
        return ids(db, Number(id.slice('rule/'.length))).map(entry)
      },
    },
  })
}

t.test('a change of what is followed renders what follows from it, before and after, and nothing else', async (t) => {
  const asked: string[] = []
  const { call, plane } = await buildArea(t, 'firewall', { extraAreas: [follower(asked)] })
  const echoes = () =>
    [...plane.entries.values()].flatMap((it) => ('value' in it && it.key.startsWith('echo/') ? it.value : []))
  await call('POST', '/api/v1/rules', { action: 'accept' })
  t.same(echoes(), ['accept'])
  await call('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  t.same(new Set(asked), new Set(['rule/1']), 'only what is touched is asked for')
  plane.refuse = new KernelRefusal('no')
  t.equal((await call('DELETE', '/api/v1/rules/1')).status, 409)
  t.same(echoes(), ['accept'], 'refused as a whole')
  await call('DELETE', '/api/v1/rules/1')
  t.same(echoes(), [], 'what is gone is found by how it was')
})

t.test('only what an area needs can be followed, or warned of', (t) => {
  const area = (name: string, fields: object) => ({ name, prefixes: [], routes() {}, dir: '', ...fields })
  const follows = { one: () => [] }
  t.throws(() => inOrder([area('one', {}), area('two', { follows })]), {
    message: 'area two follows one, which is none of its needs',
  })
  const warnings = { one: () => [] }
  t.throws(() => inOrder([area('one', {}), area('two', { warnings })]), {
    message: 'area two warns of one, which is none of its needs',
  })
  t.ok(inOrder([area('two', { follows, warnings, needs: ['one'] }), area('one', {})]))
  t.end()
})
