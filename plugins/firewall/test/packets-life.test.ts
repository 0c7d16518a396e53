/** Rules and traffic through the life of the agent: restart, stop, kill, reboot, a frozen licence. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { signLicence } from '../../../core/licence/file.ts'
import { payload, vendorKeys } from '../../../core/licence/test/vendor.ts'
import { chains, table, walk } from './kernel.ts'
import { CLIENT, lab, OPEN, SERVER, SHUT, sees } from './lab.ts'
import { forget, held, judged, lane, requireLane } from './lane.ts'
import { SPARED, undisturbed } from './undisturbed.ts'

requireLane(t)
const here = await lab(t)
const { client, server, node, router, rule, ids, enclose, put, reset, agent } = here
for (const proto of ['udp', 'tcp'] as const) await server.serve(proto, [1000, 1001])
await node.serve('udp', [SPARED])

const list = async () => (await agent.call('GET', '/control/v1/firewall/rules')).body.rules as { id: number }[]

judged('fw-48 enable-27 persist-01 persist-05 rules, ids and traffic survive a restart', async (t) => {
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
  await undisturbed(t, here, () => agent.restart())
  t.same(await list(), before, 'the same rules with the same ids and schedules')
  const next = await rule({ action: 'drop', dest_port: 4002 })
  t.ok(replaced < last && last < next, `no id is used again: ${replaced} < ${last} < ${next}`)
  t.same((await agent.call('GET', '/api/v1/rules/default')).body, { default_action: 'deny' })
  await reset()
})

judged('enable-28 enable-27 the data plane goes on while the agent is stopped or killed', async (t) => {
  await enclose()
  await undisturbed(t, here, async () => {
    t.equal(await agent.kill('SIGTERM'), 0, 'SIGTERM ends it cleanly')
    await sees(t, client, { pass: OPEN, drop: SHUT }, 'stopped')
    await agent.restart()
    t.equal(await agent.kill('SIGKILL'), null)
    await sees(t, client, { pass: OPEN, drop: SHUT }, 'killed')
    await agent.restart()
  })
  await reset()
})

judged('fw-48 persist-03 after a reboot the rules are in force before the agent answers', async (t) => {
  await enclose()
  await agent.kill('SIGKILL')
  forget(router)
  await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'control: the kernel is empty')
  const up = agent.restart()
  const seen = await firstAnswer()
  t.same(seen, ['accept', 'drop'], 'at its first answer the rule is there, and the default action')
  await up
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'the packets say so too')
  await reset()
})

/** What new packets to the open and to a shut port meet when the agent answers for the first time. */
async function firstAnswer(): Promise<string[]> {
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    try {
      await agent.call('GET', '/api/v1/rules')
      return lane === 'nft' ? inNft() : [await traced(1000), await traced(1001)]
    } catch {
      // Nobody listens yet.
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  throw new Error('the agent does not answer')
}

function inNft(): string[] {
  const all = chains(table(router))
  const [rule = '', fallback = ''] = ['firewall_rules', 'firewall_default'].map(
    (chain) => [...walk(all, chain)].at(-1)?.text ?? '',
  )
  return [/ dport 1000 (\w+)$/.exec(rule)?.[1] ?? '', fallback]
}

async function traced(port: number): Promise<string> {
  const query = `src=${CLIENT.v4}&dst=${SERVER.v4}&dport=${port}`
  return String((await agent.call('GET', `/control/v1/firewall/trace?${query}`)).body.action)
}

judged('persist-02 what was acknowledged before SIGKILL is there, and nothing by half', async (t) => {
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
  t.equal(await held(router, agent), stored.length, 'the kernel holds as many')
  t.ok((await rule({ action: 'drop', dest_port: 7000 })) > Math.max(...acknowledged), 'and no id is used twice')
  await reset()
})

judged('lic-12 with a frozen licence traffic and rules go on, changes do not', async (t) => {
  const { publicKey, privateKey } = vendorKeys()
  const trusted = join(agent.stateDir, 'vendor.pub')
  writeFileSync(trusted, publicKey.export({ type: 'spki', format: 'pem' }))
  await put('/control/v1/config/license_trusted_keys', { value: trusted })
  const id = await enclose()
  const [frozen, renewed] = [
    signLicence(payload({ valid_from: '2020-01-01T00:00:00Z', valid_until: '2021-01-01T00:00:00Z' }), privateKey),
    signLicence(payload({ valid_from: '2020-01-01T00:00:00Z', valid_until: '2099-01-01T00:00:00Z' }), privateKey),
  ]
  await undisturbed(t, here, async () => {
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
