/** What others do to the firewall in the kernel while the agent runs is repaired within seconds; what is theirs stays. */
import t, { type Test } from 'tap'
import { openLines } from '../../../core/cli/lines.ts'
import type { Finding } from '../../../core/state/drift.ts'
import { table } from './kernel.ts'
import { lab, OPEN, SERVER, SHUT, sees, udp } from './lab.ts'
import { held, judged, lane, MET, requireLane } from './lane.ts'

requireLane(t)
const { client, server, router, ids, enclose, put, reset, agent } = await lab(t)
for (const proto of ['udp', 'tcp'] as const) await server.serve(proto, [1000, 1001])
const nft = (...args: string[]) => router.run('nft', ...args)

interface Drift {
  repaired: boolean
  added: number
  changed: number
  removed: number
  differing: number
  found: Finding[]
}

/** The events of drift that are stored from now on, as the stream sends them. */
async function drifts(t: Test): Promise<() => Promise<Drift>> {
  const end = new AbortController()
  t.teardown(() => end.abort())
  const lines = openLines(agent.socket, () => end.signal, 30_000)('/control/v1/events?types=agent.drift')
  const { value: hello } = await lines.next()
  t.match(JSON.parse(String(hello)), { type: 'stream.hello' })
  return async () => {
    const { value } = await lines.next()
    const { actor, area, data } = JSON.parse(String(value))
    t.match({ actor, area }, { actor: { kind: 'system', label: 'drift' }, area: 'core' })
    return data as Drift
  }
}

/** Other areas have their part in the table as well. */
const found = ({ found }: Drift) =>
  found.map(({ key, state }) => `${key} ${state}`).filter((line) => line.startsWith('firewall/'))
const troubles = async () =>
  ((await agent.call('GET', '/control/v1/services')).body.troubles as string[]).filter((it) => it.includes('firewall'))
const config = async (key: string, value: string) => {
  const { status } = await agent.call('PUT', `/control/v1/config/${key}`, { value })
  if (status !== 200) throw new Error(`config set ${key}: ${status}`)
}
const bare = (listing: string) => listing.replaceAll(/packets \d+ bytes \d+/g, '')

type Meddling = [what: string, script: () => string, found: string[]]

const FRAME_MEDDLING: Meddling[] = [
  ['the way in goes', () => 'flush chain inet stratum firewall', ['firewall/firewall missing']],
  ['an element is deleted', () => 'delete element inet stratum firewall_ported { udp }', ['firewall/skeleton changed']],
  ['the table sleeps', () => 'add table inet stratum { flags dormant; }', ['firewall/skeleton changed']],
]

/** What of a default deny stands in nft beside the classifier. */
const MARK_MEDDLING: Meddling[] = [
  ['the marks go', () => 'flush chain inet stratum firewall_spared', ['firewall/firewall_spared missing']],
  [
    'all is marked',
    () => 'add rule inet stratum firewall_spared meta priority set ffff:5354',
    ['firewall/firewall_spared changed'],
  ],
]

function ruleMeddling(id: number, whole: string): Meddling[] {
  const rule = `firewall/${id}`
  const handle = () =>
    /dport 1000 accept .*# handle (\d+)/.exec(nft('-a', 'list chain inet stratum firewall_rules'))?.[1]
  const comment = / dport 1000 accept comment "([^"]*)"/.exec(whole)?.[1]
  return [
    ['a rule is deleted', () => `delete rule inet stratum firewall_rules handle ${handle()}`, [`${rule} missing`]],
    [
      'a rule is slipped in',
      () => 'insert rule inet stratum firewall_rules accept',
      ['firewall/firewall_rules changed'],
    ],
    [
      'a rule is another under the same comment',
      () => `replace rule inet stratum firewall_rules handle ${handle()} udp dport 1001 accept comment "${comment}"`,
      [`${rule} changed`],
    ],
    [
      'the default action goes',
      () => 'flush chain inet stratum firewall_default',
      ['firewall/firewall_default missing'],
    ],
  ]
}

judged('persist-03 whatever of the firewall is taken away, changed or slipped in is as stored again', async (t) => {
  const next = await drifts(t)
  const id = await enclose()
  const whole = bare(table(router))
  const meddling = [...(lane === 'nft' ? ruleMeddling(id, whole) : MARK_MEDDLING), ...FRAME_MEDDLING]
  for (const [what, script, keys] of meddling) {
    nft(script())
    t.same(found(await next()), keys, what)
    t.equal(bare(table(router)), whole, `${what}: the kernel is as it was`)
  }
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'and so are the packets')
  t.match(await agent.call('GET', '/api/v1/metrics'), { status: 200, text: /reconcile_passes_total\{cause="drift"/ })
  await reset()
})

judged('persist-03 the whole table, or the whole ruleset, is back within seconds', async (t) => {
  const next = await drifts(t)
  await enclose()
  for (let n = 0; n < 60; n++) await agent.call('POST', '/api/v1/rules', { action: 'accept', dest_port: 2000 + n })
  const stored = await ids()
  for (const script of ['delete table inet stratum', 'flush ruleset']) {
    nft(script)
    const { repaired, added, differing, found } = await next()
    // The rules of the classifier are not in that table.
    t.ok(repaired && added >= (lane === 'nft' ? stored.length : 0) + 3, `${script}: ${added} added`)
    t.equal(found.length, Math.min(20, differing), 'of which twenty are named')
    t.equal(await held(router, agent), stored.length)
    await sees(t, client, { pass: OPEN, drop: SHUT }, `${script}: the packets are judged as stored`)
  }
  await reset()
})

judged('persist-04 a foreign table, and foreign chains and rules, stay exactly as they are', async (t) => {
  const next = await drifts(t)
  await enclose()
  nft(`add table inet other
add set inet other firewall_ended4 { type ipv4_addr; elements = { 192.0.2.1 }; }
add chain inet other firewall_rules { type filter hook forward priority 5; policy accept; }
add rule inet other firewall_rules ip saddr @firewall_ended4 drop comment "firewall/1 0.0.1 0123456789abcdef"
add table ip stratum
add chain ip stratum firewall
add rule ip stratum firewall drop
add chain inet stratum visitors
add rule inet stratum visitors ip saddr 192.0.2.77 drop`)
  const theirs = () =>
    `${nft('list table inet other')}${nft('list table ip stratum')}${nft('list chain inet stratum visitors')}`
  const before = theirs()
  nft(`flush chain inet stratum ${MET}`)
  await next()
  t.equal(theirs(), before, 'after a drift of ours')
  t.match(await agent.call('POST', '/control/v1/drift', {}), { body: { status: 'clean' } })
  t.equal(theirs(), before, 'after a pass on demand')
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'and ours works')
  nft(
    'delete table inet other\ndelete table ip stratum\nflush chain inet stratum visitors\ndelete chain inet stratum visitors',
  )
  await reset()
})

/** Not fought over by the other tests, because the pauses grow. */
const FIGHT =
  lane === 'nft' ? 'flush chain inet stratum firewall_rules' : 'add rule inet stratum firewall_default accept'

judged('who undoes a repair at once is answered later, and the status says so until then', async (t) => {
  const next = await drifts(t)
  await enclose()
  // The pause doubles each time; the last is long enough to be seen on a busy machine.
  for (let n = 0; n < 4; n++) {
    nft(FIGHT)
    await next()
  }
  t.same(await troubles(), [])
  nft(FIGHT)
  for (const end = Date.now() + 20_000; (await troubles()).length === 0 && Date.now() < end; ) await undisturbed()
  t.match(await troubles(), [/changed by somebody else again and again, repaired anew within \d+ s: firewall\/\w+$/])
  t.equal(
    (await agent.call('POST', '/api/v1/rules', { action: 'accept', dest_port: 7 })).status,
    201,
    'no change waits for it',
  )
  await next()
  t.same(await troubles(), [])
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'the packets are judged as stored')
  await reset()
})

judged('with drift_interval 0 only a check on demand compares, and a dry run changes nothing', async (t) => {
  await config('drift_interval', '0')
  await enclose()
  nft(`insert rule inet stratum ${MET} udp dport 1000 drop`)
  await sees(t, client, { drop: [udp(SERVER.v4, 1000)] }, 'control: theirs is in force')
  const before = table(router)
  const check = (body: object) => agent.call('POST', '/control/v1/drift', body)
  t.match(await check({ dry_run: true }), { body: { status: 'differs', differing: 1, changed: 0 } })
  t.equal(table(router), before)
  t.match(await check({}), { body: { status: 'repaired', changed: 1 } })
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'the packets are judged as stored')
  await config('drift_interval', '60')
  await put('/api/v1/rules/default', { default_action: 'allow' })
  await reset()
})

judged('promise 1: changes that race with somebody who tears down the table end as they answer', async (t) => {
  await enclose()
  for (let n = 0; n < 8; n++) {
    const changes = Array.from({ length: 3 }, (_, at) =>
      agent.call('POST', '/api/v1/rules', { action: 'accept', dest_port: 3000 + 10 * n + at }),
    )
    const checks = [agent.call('POST', '/control/v1/drift', {}), agent.call('POST', '/control/v1/drift', {})]
    router.spawn('nft', [n % 2 ? 'delete table inet stratum' : `flush chain inet stratum ${MET}`])
    for (const { status, text } of await Promise.all(changes)) t.equal(status, 201, text)
    await Promise.all(checks)
  }
  t.match(await agent.call('POST', '/control/v1/drift', {}), { status: 200 })
  t.equal(await held(router, agent), (await ids()).length)
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'the packets are judged as stored')
  await reset()
})

const undisturbed = () => new Promise((resolve) => setTimeout(resolve, 50))
