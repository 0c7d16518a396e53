/** Rules and traffic through the life of the agent: restart, stop, kill, reboot, meddling, a frozen licence. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { signLicence } from '../../../core/licence/file.ts'
import { payload, vendorKeys } from '../../../core/licence/test/vendor.ts'
import { requireRoot } from '../../../test/netns.ts'
import { chains, table, walk } from './kernel.ts'
import { CLIENT, lab, SERVER, sees, tcp, udp } from './lab.ts'

requireRoot(t)
const { client, server, router, rule, put, reset, agent } = await lab(t)
for (const proto of ['udp', 'tcp'] as const) await server.serve(proto, [1000, 1001])

const OPEN = [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000)]
const SHUT = [udp(SERVER.v4, 1001), tcp(SERVER.v6, 1001)]
const list = async () => (await agent.call('GET', '/control/v1/firewall/rules')).body.rules as { id: number }[]
const ids = async () => (await list()).map(({ id }) => id)
const nft = (...args: string[]) => router.run('nft', ...args)

/** Default deny and one port open. Returns the id of the rule. */
async function enclose(): Promise<number> {
  await put('/api/v1/rules/default', { default_action: 'deny' })
  return rule({ action: 'accept', dest_port: 1000, comment: 'open' })
}

/** Carries out `work` under traffic: nothing that is admitted may be lost, nothing that is forbidden may pass. */
async function undisturbed(t: Test, work: () => Promise<unknown>): Promise<void> {
  const talk = await client.open(tcp(SERVER.v4, 1000))
  t.ok(await talk.lives(), 'control: a connection lives')
  const [open, shut] = [await server.heard(1000, 0), await server.heard(1001, 0)]
  const sprays = [
    await client.spray(udp(SERVER.v4, 1000), { fresh: true, everyMs: 3 }),
    await client.spray(udp(SERVER.v4, 1000), { fresh: false, everyMs: 3 }),
  ]
  const forbidden = await client.spray(udp(SERVER.v4, 1001), { fresh: true, everyMs: 3 })
  await work()
  t.ok(await talk.lives(), 'the connection lives on')
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'new connections are judged as before')
  let sent = 0
  for (const spray of sprays) sent += await spray.stop()
  t.ok((await forbidden.stop()) > 20 && sent > 40, `${sent} packets were sent meanwhile`)
  // The probes above send some more, so more than sent may have arrived.
  t.ok((await server.heard(1000, open + sent)) - open >= sent, 'no admitted packet was lost')
  t.equal(await server.heard(1001, shut), shut, 'no forbidden packet passed')
}

t.test('fw-48 enable-27 persist-01 persist-05 rules, ids and traffic survive a restart', async (t) => {
  const id = await enclose()
  await rule({ action: 'drop', source_ip: '192.0.2.0/24', mac: CLIENT.mac, level: 'flow', comment: 'ünïcode' })
  await put(`/control/v1/firewall/rules/${id}/schedule`, { from: '00:00', to: '23:59', daily: true })
  await agent.call('DELETE', `/control/v1/firewall/rules/${id}/schedule`)
  await put(`/control/v1/firewall/rules/${id + 1}/schedule`, { from: '22:00', to: '06:00', daily: true })
  const replaced = await rule({ action: 'drop', dest_port: 4000 })
  const body = await put(`/api/v1/rules/${replaced}`, { action: 'drop', dest_port: 4001 })
  const last = (body.rule as { id: number }).id
  await agent.call('DELETE', `/api/v1/rules/${last}`)
  const before = await list()
  await undisturbed(t, () => agent.restart())
  t.same(await list(), before, 'the same rules with the same ids and schedules')
  const next = await rule({ action: 'drop', dest_port: 4002 })
  t.ok(replaced < last && last < next, `no id is used again: ${replaced} < ${last} < ${next}`)
  t.same((await agent.call('GET', '/api/v1/rules/default')).body, { default_action: 'deny' })
  await reset()
})

t.test('enable-28 enable-27 the data plane goes on while the agent is stopped or killed', async (t) => {
  await enclose()
  await undisturbed(t, async () => {
    t.equal(await agent.kill('SIGTERM'), 0, 'SIGTERM ends it cleanly')
    await sees(t, client, { pass: OPEN, drop: SHUT }, 'stopped')
    await agent.restart()
    t.equal(await agent.kill('SIGKILL'), null)
    await sees(t, client, { pass: OPEN, drop: SHUT }, 'killed')
    await agent.restart()
  })
  await reset()
})

t.test('fw-48 persist-03 after a reboot the rules are in force before the agent answers', async (t) => {
  await enclose()
  await agent.kill('SIGKILL')
  nft('delete', 'table', 'inet', 'stratum')
  await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'control: the kernel is empty')
  const up = agent.restart()
  const seen = await firstAnswer()
  t.match(seen[0], / dport 1000 accept$/, 'at its first answer the rule is there')
  t.equal(seen.at(-1), 'drop', 'and the default action')
  await up
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'the packets say so too')
  await reset()
})

/** What a new packet meets when the agent answers for the first time. */
async function firstAnswer(): Promise<string[]> {
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    try {
      await agent.call('GET', '/api/v1/rules')
      const all = chains(table(router))
      return ['firewall_rules', 'firewall_default'].flatMap((chain) => [...walk(all, chain)].map(({ text }) => text))
    } catch {
      // Nobody listens yet.
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  throw new Error('the agent does not answer')
}

t.test('persist-02 what was acknowledged before SIGKILL is there, and nothing by half', async (t) => {
  const acknowledged: number[] = []
  const batch = Array.from({ length: 200 }, (_, at) => ({ action: 'drop', dest_port: 5000 + at, comment: 'batch' }))
  const work: Promise<unknown>[] = []
  const enough = new Promise<void>((resolve) => {
    for (let at = 0; at < 60; at++) {
      const made = rule({ action: 'drop', dest_port: 6000 + at }).then((id) => {
        if (acknowledged.push(id) === 20) resolve()
      })
      work.push(made)
      // The one that is being carried out at the moment of the kill.
      if (at === 19) work.push(agent.call('POST', '/api/v1/rules/batch', { rules: batch }))
    }
  })
  const all = Promise.allSettled(work)
  await enough
  await agent.kill('SIGKILL')
  await all
  await agent.restart()
  const stored = (await list()) as { id: number; comment?: string }[]
  const present = new Set(stored.map(({ id }) => id))
  t.same(
    acknowledged.filter((id) => !present.has(id)),
    [],
    'every acknowledged rule is there',
  )
  const half = stored.filter(({ comment }) => comment === 'batch').length
  t.ok(half === 0 || half === batch.length, `${half} rules of a batch of ${batch.length}`)
  t.equal([...walk(chains(table(router)), 'firewall_rules')].length, stored.length, 'the kernel holds as many')
  t.ok((await rule({ action: 'drop', dest_port: 7000 })) > Math.max(...acknowledged), 'and no id is used twice')
  await reset()
})

t.test('persist-04 what the agent did not make is never touched', async (t) => {
  const script = [
    'add table ip stratum',
    'add chain ip stratum firewall { type filter hook prerouting priority -150; }',
    'add rule ip stratum firewall udp dport 9 counter drop comment "firewall/1 0.0.1 0123456789abcdef"',
    'add table inet other',
    'add set inet other firewall_ended4 { type ipv4_addr; elements = { 192.0.2.1 } }',
    'add chain inet other firewall_rules',
    'add rule inet other firewall_rules ip saddr @firewall_ended4 drop',
  ]
  nft(script.join('\n'))
  const others = () => `${nft('list', 'table', 'ip', 'stratum')}${nft('list', 'table', 'inet', 'other')}`
  const before = others()
  const routes = () => `${router.run('ip', 'rule')}${router.run('ip', 'route')}${router.run('ip', '-6', 'route')}`
  const ways = routes()
  const id = await enclose()
  await put(`/api/v1/rules/${id}`, { action: 'accept', dest_port: 1000 })
  t.equal(others(), before, 'create and replace')
  await agent.restart()
  t.equal(others(), before, 'restart')
  await agent.kill('SIGKILL')
  nft('delete', 'table', 'inet', 'stratum')
  await agent.restart()
  t.equal(others(), before, 'reboot')
  await reset()
  t.equal(others(), before, 'delete')
  t.equal(routes(), ways, 'nor are routes and policy rules')
  nft('delete table ip stratum\ndelete table inet other')
})

t.test('persist-03 what somebody did to the rules in the kernel is gone after a start', async (t) => {
  await enclose()
  nft('flush chain inet stratum firewall_rules')
  nft('insert rule inet stratum firewall_rules udp dport 1000 drop')
  nft('flush chain inet stratum firewall_default')
  await sees(t, client, { pass: SHUT, drop: [udp(SERVER.v4, 1000)] }, 'control: it is upside down')
  await agent.restart()
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'as stored')
  await reset()
  nft('insert rule inet stratum firewall_rules udp dport 1000 drop')
  await sees(t, client, { drop: [udp(SERVER.v4, 1000)] }, 'control: without a rule of ours theirs is in force')
  await agent.restart()
  await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'gone as well')
  await reset()
})

t.test('lic-12 with a frozen licence traffic and rules go on, changes do not', async (t) => {
  const { publicKey, privateKey } = vendorKeys()
  const trusted = join(agent.stateDir, 'vendor.pub')
  writeFileSync(trusted, publicKey.export({ type: 'spki', format: 'pem' }))
  await put('/control/v1/config/license_trusted_keys', { value: trusted })
  const id = await enclose()
  const [frozen, renewed] = [
    signLicence(payload({ valid_from: '2020-01-01T00:00:00Z', valid_until: '2021-01-01T00:00:00Z' }), privateKey),
    signLicence(payload({ valid_from: '2020-01-01T00:00:00Z', valid_until: '2099-01-01T00:00:00Z' }), privateKey),
  ]
  await undisturbed(t, async () => {
    const { license } = await put('/control/v1/license', { text: frozen })
    t.match(license, { state: 'frozen', mutations_allowed: false })
    const refused = [
      await agent.call('POST', '/api/v1/rules', { action: 'accept' }),
      await agent.call('PUT', `/api/v1/rules/${id}`, { action: 'drop' }),
      await agent.call('DELETE', `/api/v1/rules/${id}`),
      await agent.call('PUT', '/api/v1/rules/default', { default_action: 'allow' }),
      await agent.call('POST', '/api/v1/rules/batch', { rules: [{ action: 'drop' }] }),
      await agent.call('PUT', `/control/v1/firewall/rules/${id}/schedule`, { from: '01:00', to: '02:00', daily: true }),
    ]
    t.same(
      refused.map(({ status }) => status),
      refused.map(() => 403),
      'every change is refused',
    )
    t.match(refused[0]?.body, {
      error: 'license inactive: changes are frozen until the license is renewed; existing workloads keep running',
    })
    t.same(await ids(), [id], 'reads go on, and nothing changed')
    await agent.restart()
  })
  await put('/control/v1/license', { text: renewed })
  await reset()
  await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'control: renewed, changes work again')
})

t.test('persist-03 after "nft flush table inet stratum" a start brings the firewall back', async (t) => {
  await enclose()
  nft('flush', 'table', 'inet', 'stratum')
  await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'control: nothing is enforced')
  await agent.restart()
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'enforced again')
  await reset()
})

t.test('promise 1: whatever befalls the helper or the table meanwhile, an answer is true', async (t) => {
  await enclose()
  const { pid } = agent.child
  const children = () => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
  t.ok(children().every((child) => child > 1) && children().length > 0, 'control: there is a helper')
  const mishaps: Record<string, () => void> = {
    'the helper dies': () => {
      for (const child of children()) process.kill(child, 'SIGKILL')
    },
    'the table is deleted': () => void nft('delete', 'table', 'inet', 'stratum'),
  }
  for (const [what, mishap] of Object.entries(mishaps)) {
    const before = await ids()
    const posts = Array.from({ length: 6 }, (_, at) => ({ action: 'accept', dest_port: 4000 + at }))
    const first = agent.call('POST', '/api/v1/rules', posts[0])
    mishap()
    const answers = [await first]
    for (const body of posts.slice(1)) answers.push(await agent.call('POST', '/api/v1/rules', body))
    const made = answers.filter(({ status }) => status === 201).map(({ body }) => (body.rule as { id: number }).id)
    t.same(
      await ids(),
      [...before, ...made],
      `${what}: stored is what was acknowledged, ${made.length} of ${posts.length}`,
    )
    t.same(
      held(),
      (await ids()).map((id) => `firewall/${id}`),
      `${what}: and the kernel holds it`,
    )
    await sees(t, client, { pass: OPEN, drop: SHUT }, `${what}: as the packets find`)
  }
  await reset()
})

/** Keys of the rules in the kernel; none without the table. */
function held(): (string | undefined)[] {
  if (!nft('list', 'tables').includes('table inet stratum')) return []
  return [...walk(chains(table(router)), 'firewall_rules')].map(({ comment }) => comment.split(' ')[0])
}
