/** How a node becomes a member: codes, the command line, and what keeps others out. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { type ClusterNode, complete, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import type { JoinCode } from '../schemas.ts'
import { joinWith, newCode } from './given.ts'
import { eventsOf } from './told.ts'

requireRoot(t)
const P = '/api/v1/cluster'
const CTL = join(import.meta.dirname, '..', '..', '..', 'core', 'cli', 'main.js')

async function ctl({ agent }: ClusterNode, args: readonly string[], input = '') {
  const env = { PATH: process.env.PATH, STRATUM_RUN_DIR: agent.runDir, STRATUM_STATE_DIR: agent.stateDir }
  const child = spawn(process.execPath, [CTL, ...args], { env })
  child.stdin.end(input)
  const texts = [child.stdout, child.stderr].map(async (stream) => {
    let text = ''
    for await (const part of stream) text += part
    return text
  })
  const [code] = await once(child, 'close')
  const [out = '', err = ''] = await Promise.all(texts)
  return { code, out, err }
}

const codesOf = async ({ agent }: ClusterNode) =>
  (await agent.call('GET', `${P}/join-codes`)).body.join_codes as JoinCode[]
/** The code with other contents. */
function forged(code: string, change: Record<string, unknown>): string {
  const read = JSON.parse(Buffer.from(code, 'base64').toString())
  return Buffer.from(JSON.stringify({ ...read, ...change })).toString('base64')
}

t.test('codes and the command line', async (t) => {
  // The second is told by the command line who it is.
  const { nodes } = await nodesOn(t, 2, { config: { api_auth_fail_limit: '3' } })
  const [n1, n2] = nodes as [ClusterNode, ClusterNode]
  for (const key of ['cluster_enabled', 'cluster_address']) {
    succeeded(await n2.agent.call('DELETE', `/control/v1/config/${key}`))
  }

  await t.test('cluster-08 D99 a code is printed once, and listed without its secret', async (t) => {
    const made = await ctl(n1, ['cluster', 'join-code', 'create', '--ttl', '10m'])
    t.equal(made.code, 0, made.err)
    const code = JSON.parse(Buffer.from(made.out, 'base64').toString())
    t.match(code, { cluster: /./, addresses: ['10.8.0.1:7073'], fingerprint: /^([0-9A-F]{2}:){31}/, secret: /./ })
    const [record] = await codesOf(n1)
    t.match(record, { state: 'active', created_by: 'cli root', expires_at: code.expires_at })
    t.notMatch(JSON.stringify([await codesOf(n1), n1.agent.logged]), code.secret.slice(16))
    const left = Date.parse(code.expires_at) - Date.parse(record?.created_at ?? '')
    t.equal(left, 600_000, 'ten minutes')
    t.match((await eventsOf(n1, 'join_code.created'))[0]?.data, { id: record?.id, state: 'active' })
  })

  await t.test('cluster-09 a revoked code admits nobody, and is not told from one that never was', async (t) => {
    succeeded(await n2.agent.call('PUT', '/control/v1/config/cluster_address', { value: '10.8.0.2' }))
    succeeded(await n2.agent.call('PUT', '/control/v1/config/cluster_enabled', { value: 'on' }))
    const { code, id } = await newCode(n1)
    const revoked = await ctl(n1, ['cluster', 'join-code', 'revoke', id])
    t.equal(revoked.code, 0, revoked.err)
    t.match(
      (await codesOf(n1)).find((one) => one.id === id),
      { state: 'revoked' },
    )
    const wrong = forged((await newCode(n1)).code, { secret: `${id}.${'A'.repeat(43)}` })
    const answers = [await joinWith(n2, code), await joinWith(n2, wrong)]
    for (const { status, body } of answers) t.match([status, body.error], [403, /the join code is not accepted/])
    t.equal(answers[0]?.text, answers[1]?.text)
    t.match(await standing(n1), { peers: [] })
    t.match(await standing(n2), { peers: [] }, 'and nobody has joined')
  })

  await t.test('D99 the secret goes to nobody whose certificate is of another authority', async (t) => {
    const { code, id } = await newCode(n1)
    const fingerprint = Array.from({ length: 32 }, () => 'AB').join(':')
    const { status, body } = await joinWith(n2, forged(code, { fingerprint }))
    t.match([status, body.error], [503, /another cluster, or none, is there/])
    t.match(
      (await codesOf(n1)).find((one) => one.id === id),
      { state: 'active' },
    )
    const silent = await joinWith(n2, forged(code, { addresses: ['10.8.0.1:7999'] }))
    t.equal(silent.status, 503)
    t.equal((await joinWith(n2, 'nonsense')).status, 400)
  })

  await t.test('D36 who presents wrong codes is blocked as at the API', async (t) => {
    const { code } = await newCode(n1)
    const wrong = forged(code, { secret: 'wrong' })
    t.equal((await joinWith(n2, wrong)).status, 403, 'the third')
    t.equal((await joinWith(n2, code)).status, 429, 'a right one too')
    const { body } = await n1.agent.call('GET', '/control/v1/blocks')
    t.match(body.blocks, [{ address: '10.8.0.2' }])
    succeeded(await n1.agent.call('DELETE', '/control/v1/blocks/10.8.0.2'))
  })

  await t.test('cluster-04 D100 a node joins by the command line, and the code is used up', async (t) => {
    for (const key of ['cluster_enabled', 'cluster_address']) {
      succeeded(await n2.agent.call('DELETE', `/control/v1/config/${key}`))
    }
    const { code, id } = await newCode(n1)
    t.equal((await ctl(n2, ['cluster', 'join'], `${code}\n`)).code, 1, 'it is not enabled there')
    const admitted = await n1.agent.call('POST', `${P}/join`, { node_id: 'n2', address: '10.8.0.2' })
    t.same([admitted.status, admitted.body], [200, { status: 'joined', node_id: 'n2' }])
    const again = await n1.agent.call('POST', `${P}/join`, { node_id: 'n2', address: '10.8.0.2' })
    t.same([again.status, again.body], [200, admitted.body], 'once more changes nothing')
    t.equal((await n1.agent.call('POST', `${P}/join`, { node_id: 'n2', address: '10.8.0.9' })).status, 409)
    t.match(await standing(n1), { peers: [{ id: 'n2', role: 'learner', status: 'offline' }] })

    const joined = await ctl(n2, ['cluster', 'join', '--address', '10.8.0.2'], `${code}\n`)
    t.equal(joined.code, 0, joined.err)
    await complete(nodes)
    t.match(
      (await codesOf(n2)).find((one) => one.id === id),
      { state: 'used', used_by: 'n2' },
      'known to all',
    )
    t.equal((await n1.agent.call('DELETE', `${P}/join-codes/${id}`)).status, 409)
    t.match((await ctl(n2, ['cluster', 'status'])).out, /^n1 +10\.8\.0\.1 +leader +online$/m)
    t.same(
      (await eventsOf(n1, 'cluster_member.added')).map(({ data }) => data),
      [{ id: 'n2', address: '10.8.0.2' }],
    )
    t.equal((await joinWith(n2, (await newCode(n1)).code)).status, 409, 'it is a member already')
  })

  await t.test('a member stays what the others know it as', async (t) => {
    for (const [key, value] of [
      ['cluster_enabled', 'off'],
      ['cluster_address', '10.8.0.9'],
    ] as const) {
      const { status, body } = await n2.agent.call('PUT', `/control/v1/config/${key}`, { value })
      t.match([status, body.error], [409, /member of a cluster.*cluster leave/], key)
    }
    t.equal((await n2.agent.call('GET', '/control/v1/config/cluster_enabled')).body.value, 'on')
    await complete(nodes)
  })
})
