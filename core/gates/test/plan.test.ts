/** What the plan grants, by path prefix, over HTTP. */
import t from 'tap'
import { CLUSTER_FIVE, GATED } from '../../../test/rest/areas.ts'
import { ask, refusal } from '../../../test/rest/ask.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { BARE, DAY_MS, END, filled, unlicensed } from '../../../test/rest/vendor.ts'

const P = '/api/v1'
const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const

t.test('gate-12 D21 without a licence: gated paths closed, other reads open, other changes refused', async (t) => {
  const built = await unlicensed(t)
  const before = snapshot(built)
  for (const { title, paths } of GATED) {
    for (const path of [...paths, `${paths[0]}/x1/nope/nope`]) {
      for (const method of METHODS) {
        const answer = await ask(built.agent, method, filled(path))
        t.same(refusal(answer), [403, `no license installed: ${title} requires a license`], `${method} ${path}`)
      }
    }
  }
  t.same(refusal(await ask(built.agent, 'GET', `${P}/cluster`)), [
    403,
    'no license installed: Cluster requires a license',
  ])
  for (const path of ['/rules', '/rules/default', '/status', '/license', '/docs', '/cluster/status']) {
    t.equal((await ask(built.agent, 'GET', `${P}${path}`)).status, 200, path)
  }
  const why = 'no license installed: changes need an active license'
  t.same(refusal(await ask(built.agent, 'POST', `${P}/rules`, { json: { action: 'drop' } })), [403, why])
  t.same(refusal(await ask(built.agent, 'PUT', `${P}/rules/default`, { json: { default_action: 'deny' } })), [403, why])
  t.same(snapshot(built), before)
})

t.test(
  'gate-01 gate-02 gate-03 gate-04 gate-05 gate-06 gate-07 gate-08 gate-09 gate-11 gate-14 reads and writes, known and unknown, name the feature',
  async (t) => {
    const { agent, sign, hits, clock } = await unlicensed(t)
    await agent.licence.install(sign(BARE))
    for (const time of [clock.ms, END + 20 * DAY_MS]) {
      clock.ms = time
      for (const { title, paths } of [
        ...GATED,
        { title: 'Cluster', paths: ['/cluster', '/cluster/join', '/cluster/members'] },
      ]) {
        const unknown = [`${paths[0]}/nope/nope/nope`, `${paths[0]}/`, `${paths[0]}//`, `${paths[0]}?a=/x`]
        for (const path of [...paths, ...unknown]) {
          for (const method of [...METHODS, 'PATCH', 'OPTIONS']) {
            const answer = await ask(agent, method, filled(path), {
              headers: { 'content-type': 'text/plain' },
              payload: 'x',
            })
            t.same(refusal(answer), [403, `feature not in plan: ${title}`], `${method} ${path}`)
          }
          t.equal((await ask(agent, 'HEAD', filled(path))).status, 403, `HEAD ${path}`)
        }
      }
    }
    t.same(hits, [])
  },
)

t.test(
  'gate-01 gate-02 gate-03 gate-04 gate-05 gate-06 gate-07 gate-08 gate-09 the one feature opens its prefix and no other',
  async (t) => {
    const { agent, sign, hits } = await unlicensed(t)
    for (const { capability } of GATED) {
      await agent.licence.install(sign({ features: { [capability]: true } }))
      for (const { title, capability: needed, paths } of GATED) {
        const { status, body } = await ask(agent, 'GET', filled(paths[0] ?? ''))
        const expected = needed === capability ? [200, undefined] : [403, `feature not in plan: ${title}`]
        t.same([status, body.error], expected, `${paths[0]} with ${capability}`)
      }
    }
    t.equal(hits.length, GATED.length + 2, 'Private Networks opens two')
  },
)

t.test('gate-10 five cluster routes need no Cluster feature, and nothing beside them is open', async (t) => {
  const { agent, sign } = await unlicensed(t)
  await agent.licence.install(sign(BARE))
  for (const { method, path } of CLUSTER_FIVE) {
    t.equal((await ask(agent, String(method), filled(path))).status, 200, `${method} ${path}`)
    t.equal((await ask(agent, String(method), `${filled(path)}/`)).status, 200, `${method} ${path}/`)
  }
  const beside: [string, string][] = [
    ['POST', '/cluster/status'],
    ['PUT', '/cluster/join-codes'],
    ['DELETE', '/cluster/join-codes'],
    ['DELETE', '/cluster/join-codes/'],
    ['GET', '/cluster/join-codes/x'],
    ['DELETE', '/cluster/join-codes/x/y'],
    ['DELETE', '/cluster/members/'],
    ['GET', '/cluster/members/x'],
    ['GET', '/cluster/leave'],
    ['POST', '/cluster/leave/x'],
    ['GET', '/cluster/status/x'],
    ['GET', '/cluster/statusx'],
  ]
  for (const [method, path] of beside) {
    t.same(refusal(await ask(agent, method, `${P}${path}`)), [403, 'feature not in plan: Cluster'], `${method} ${path}`)
  }
})

t.test('gate-13 gate-15 no other prefix is gated', async (t) => {
  const { agent, sign } = await unlicensed(t)
  await agent.licence.install(sign(BARE))
  const open =
    'ipam/pools rules routes vlan bridges nics macbind forward bonds float flows accounting tenant billing containers'
  const near =
    'lbx networksx networks-x dns dhcp vxlan bgp gateway bandwidthx clusterx clusters xlb routed-addressesx LB Networks'
  for (const path of `${open} ${near}`.split(' ')) {
    for (const method of METHODS) {
      const { status, body } = await ask(agent, method, `${P}/${path}`, { json: {} })
      t.not(status, 403, `${method} /${path}`)
      if (path !== 'rules') t.same([status, body.error], [404, 'no such path'], `${method} /${path}`)
    }
  }
})
