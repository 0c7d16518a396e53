/** What becomes of connections that stand when backends come, go, fail or drain. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { until } from '../../../test/segment.ts'
import { LB } from './area.ts'
import { backendIp, counts, ends, lab, living, NODE, six, tallied, VIP } from './lab.ts'
import { balanced } from './lane.ts'

requireRoot(t)

const it = await lab(t, 3)
const { agent, node, client, ok, serve, join, leave, say, drop, ask, open } = it

balanced('lb-24 connections stay when another backend comes, fails or goes, and when other VIPs do', async (t) => {
  const held = await six(it)
  t.same(tallied(held.map((one) => one.with)), { b1: 2, b2: 2, b3: 2 })
  await leave('web', 3)
  t.equal((await living(held)).length, 6, 'also those of the one that left, which drains')
  await join('web', 3, { port: 8080 })
  await say('web', 2, false)
  await serve(2, { id: 'other', frontend_port: 81 })
  await drop('other')
  t.equal((await living(held)).length, 6)
  t.notOk((await ask(6)).includes('b2'), 'lb-13 state-08 and who is unhealthy gets no new ones')
  await say('web', 2, true)
  t.ok((await ask(6)).includes('b2'))
  await ends(held)
  await drop('web')
})

balanced('lb-06 active_conns are those that stand now', async (t) => {
  const held = await six(it)
  await counts(it, 'web', [2, 2, 2])
  const list = (await ok('GET', LB)).load_balancers as { backends: { active_conns: number }[] }[]
  t.same(
    list[0]?.backends.map(({ active_conns }) => active_conns),
    [2, 2, 2],
  )
  await ends(held.filter((one) => one.with === 'b1'))
  for (const one of held.filter((it) => it.with === 'b2')) await one.close('fin')
  await counts(it, 'web', [0, 0, 2])
  await ends(held)
  await counts(it, 'web', [0, 0, 0])
  await drop('web')
})

balanced('lb-08 with the VIP its connections end, and nothing of it is left', async (t) => {
  const held = await six(it)
  const rules = () => node.run('nft', 'list', 'table', 'inet', 'stratum').includes(VIP)
  await drop('web')
  await until('they end', async () => (await living(held)).length === 0)
  t.notOk(rules(), 'in nft')
  t.notMatch(node.run('ip', 'address'), VIP)
  await serve(1)
  t.same(await ask(1), ['b1'])
  await drop('web')
})

balanced('lb-11 D76 what a removed backend has ends with its place, when somebody else needs it', async (t) => {
  await ok('PUT', '/control/v1/config/max_vip_backends', { value: '256' })
  await serve(1)
  const held = await open()
  await leave('web', 1)
  t.equal(await held.lives(), true)
  t.same(await ask(1), ['ECONNREFUSED'], 'nothing new')
  const many = Array.from({ length: 256 }, (_, n) => n + 2)
  for (const n of many) {
    await ok('POST', `${LB}/web/backends`, { id: `x${n}`, ip: `10.9.${1 + (n >> 7)}.${n & 127}`, weight: 0 })
  }
  await until('its connection ends', async () => !(await held.lives()))
  await drop('web')
})

balanced('state-08 a UDP flow leaves a backend that is unhealthy at once', async (t) => {
  await serve(2, { protocol: 'udp', algorithm: 'source-hash' })
  const flow = async () => (await client.tell('flow', { address: VIP, port: 80, localPort: 30_053 }))[0]?.split(' ')[0]
  const first = await flow()
  t.equal(await flow(), first, 'it stays')
  await say('web', Number(first?.slice(1)), false)
  let then: string | undefined
  await until('it is elsewhere', async () => {
    then = await flow()
    return then !== first
  })
  t.match(then, /^b[12]$/)
  await drop('web')
})

balanced(
  'D75 refused: a backend that is the node itself, an address that a machine has, the ninth VIP of one backend',
  async (t) => {
    await serve(0)
    const own = await agent.call('POST', `${LB}/web/backends`, { id: 'self', ip: NODE })
    t.match(own, { status: 409, body: { error: /^198\.51\.100\.1 is this node's own \(local\)/ } })
    await drop('web')
    node.run('ip', 'route', 'add', '198.51.100.77/32', 'dev', 'br-work')
    const routed = await agent.call('POST', LB, { id: 'web', frontend_ip: '198.51.100.77', algorithm: 'maglev' })
    t.match(routed, {
      status: 409,
      body: { error: '198.51.100.77 is routed to a machine behind br-work: take another address' },
    })
    for (let n = 0; n < 9; n++) await serve(0, { id: `v${n}`, frontend_port: 8000 + n })
    for (let n = 0; n < 8; n++) await join(`v${n}`, 1)
    const ninth = await agent.call('POST', `${LB}/v8/backends`, { id: 'b1', ip: backendIp(1), port: 8080 })
    const error =
      '10.9.0.11 with tcp port 8080 serves 8 VIPs already (v0, v1, v2, v3, v4, v5, v6, v7): give it another port'
    t.match(ninth, { status: 409, body: { error } })
    await drop('v0')
    await join('v8', 1)
    t.same(await ask(1, { port: 8008 }), ['b1'])
    for (let n = 1; n < 9; n++) await drop(`v${n}`)
  },
)
