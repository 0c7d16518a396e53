/** Others at the same kernel: what is not ours is never touched, and what somebody did to ours does not last. */
import { readFileSync, rmSync } from 'node:fs'
import t from 'tap'
import { lab, OPEN, SERVER, SHUT, sees, udp } from './lab.ts'
import { forget, held, judged, lane, MET, requireLane } from './lane.ts'

requireLane(t)
// What somebody did shall stand until the start or the change that a test is about.
const { client, server, router, ids, enclose, put, reset, agent } = await lab(t, { config: { drift_interval: '0' } })
for (const proto of ['udp', 'tcp'] as const) await server.serve(proto, [1000, 1001])
const nft = (...args: string[]) => router.run('nft', ...args)

judged('persist-04 what the agent did not make is never touched', async (t) => {
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
  forget(router)
  await agent.restart()
  t.equal(others(), before, 'reboot')
  await reset()
  t.equal(others(), before, 'delete')
  t.equal(routes(), ways, 'nor are routes and policy rules')
  nft('delete table ip stratum\ndelete table inet other')
})

judged('persist-03 what somebody did to the rules in the kernel is gone after a start', async (t) => {
  await enclose()
  if (lane === 'nft') {
    nft('flush chain inet stratum firewall_rules')
    nft('insert rule inet stratum firewall_rules udp dport 1000 drop')
    nft('flush chain inet stratum firewall_default')
    await sees(t, client, { pass: SHUT, drop: [udp(SERVER.v4, 1000)] }, 'control: it is upside down')
  } else {
    await agent.kill()
    rmSync(`/sys/fs/bpf/${router.name}`, { recursive: true })
    await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'control: nobody judges')
  }
  await agent.restart()
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'as stored')
  await reset()
  nft(`insert rule inet stratum ${MET} udp dport 1000 drop`)
  await sees(t, client, { drop: [udp(SERVER.v4, 1000)] }, 'control: without a rule of ours theirs is in force')
  await agent.restart()
  await sees(t, client, { pass: [...OPEN, ...SHUT] }, 'gone as well')
  await reset()
})

judged('persist-03 after "nft flush table inet stratum" a start brings the firewall back', async (t) => {
  await enclose()
  nft('flush', 'table', 'inet', 'stratum')
  // What the classifier judges by is not in that table, but without nft's rules nothing tracks connections.
  const control = lane === 'nft' ? { pass: [...OPEN, ...SHUT] } : { drop: [...OPEN, ...SHUT] }
  await sees(t, client, control, `control: ${lane === 'nft' ? 'nothing is enforced' : 'answers are no answers'}`)
  await agent.restart()
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'enforced again')
  await reset()
})

judged('promise 1: whatever befalls the helper or the table meanwhile, an answer is true', async (t) => {
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
    t.equal(await held(router, agent), (await ids()).length, `${what}: and the kernel holds it`)
    // A change of the classifier does not meet the table; to look at it by itself is switched off here.
    if (lane === 'classifier') await agent.call('POST', '/control/v1/drift', {})
    await sees(t, client, { pass: OPEN, drop: SHUT }, `${what}: as the packets find`)
  }
  await reset()
})
