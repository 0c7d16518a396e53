/** Which of several rules decides, and that a change is one step for the packets. */
import t from 'tap'
import { lab, ROUTER, SERVER, sees, tcp, udp } from './lab.ts'
import { judged, requireLane } from './lane.ts'
import type { Target } from './peer.ts'

requireLane(t)
const LEVELS = ['global', 'bridge', 'vlan', 'private_network', 'mac', 'flow']
const { client, server, router, rule, put, reset, agent } = await lab(t)
await server.serve('udp', [1000, 1001, 1002, 1003])

/** One rule a port, drop before accept or the other way round; a port answers when the accept is first. */
function pairs(): { rules: object[]; pass: Target[]; drop: Target[] } {
  const [rules, pass, drop]: [object[], Target[], Target[]] = [[], [], []]
  let port = 2000
  for (const [rank, broad] of LEVELS.entries()) {
    for (const narrow of LEVELS.slice(rank + 1)) {
      for (const [first, second] of [
        ['drop', 'accept'],
        ['accept', 'drop'],
      ]) {
        // The narrow rule comes first in time and has the better priority: only its level puts it behind.
        rules.push({ action: second, level: narrow, priority: 0, dest_port: port })
        rules.push({ action: first, level: broad, priority: 1_000_000, dest_port: port })
        ;(first === 'accept' ? pass : drop).push(udp(SERVER.v4, port++))
      }
    }
  }
  return { rules, pass, drop }
}

judged('fw-23 D66 levels are checked broadest first, whatever the priorities', async (t) => {
  const { rules, pass, drop } = pairs()
  await server.serve(
    'udp',
    [...pass, ...drop].map(({ port }) => port),
  )
  await sees(t, client, { pass: [...pass, ...drop] }, 'control: all ports answer')
  const { status } = await agent.call('POST', '/api/v1/rules/batch', { rules })
  t.equal(status, 200)
  await sees(t, client, { pass, drop }, 'each pair of levels, both ways')
  await reset()
})

judged('fw-24 D16 within a level the lower priority goes first', async (t) => {
  await rule({ action: 'drop', priority: 10, dest_port: 1000 })
  await rule({ action: 'accept', priority: 9, dest_port: 1000 })
  await rule({ action: 'accept', priority: 100, dest_port: 1001 })
  await rule({ action: 'drop', priority: 99, dest_port: 1001 })
  await rule({ action: 'drop', priority: 100, dest_port: 1002 })
  await rule({ action: 'accept', priority: 9, dest_port: 1002 })
  await sees(t, client, { pass: [udp(SERVER.v4, 1000), udp(SERVER.v4, 1002)], drop: [udp(SERVER.v4, 1001)] }, 'global')
  await reset()
})

judged('D66 among equals the lower id goes first, and PUT keeps the place', async (t) => {
  const first = await rule({ action: 'accept', dest_port: 1000 })
  await rule({ action: 'drop', dest_port: 1000 })
  await rule({ action: 'drop', dest_port: 1001 })
  await rule({ action: 'accept', dest_port: 1001 })
  const expected = { pass: [udp(SERVER.v4, 1000)], drop: [udp(SERVER.v4, 1001)] }
  await sees(t, client, expected, 'by id')
  const body = await put(`/api/v1/rules/${first}`, { action: 'accept', dest_port: 1000, comment: 'again' })
  const second = (body.rule as { id: number }).id
  t.ok(second > first + 3, 'the replacement has the highest id')
  await sees(t, client, expected, 'the replacement stands where the first stood')
  await put(`/api/v1/rules/${second}`, { action: 'accept', dest_port: 1000, priority: 1 })
  await sees(t, client, { pass: [udp(SERVER.v4, 1002)], drop: [udp(SERVER.v4, 1000)] }, 'a worse priority counts')
  await reset()
})

judged('fw-33 PUT swaps in one step: new connections never meet neither rule', async (t) => {
  const [open, shut] = [1003, 1002]
  await put('/api/v1/rules/default', { default_action: 'deny' })
  let admitting = await rule({ action: 'accept', dest_port: open })
  await rule({ action: 'accept', dest_port: 1000 })
  let forbidding = await rule({ action: 'drop', dest_port: shut })
  await rule({ action: 'accept', dest_port: shut, priority: 5 })
  await sees(t, client, { pass: [udp(SERVER.v4, 1000), udp(SERVER.v4, open)], drop: [udp(SERVER.v4, shut)] }, 'control')
  const [opened, shutted] = [await server.heard(open, 1), await server.heard(shut, 0)]
  const [admitted, forbidden] = [
    await client.spray(udp(SERVER.v4, open), { fresh: true, everyMs: 1 }),
    await client.spray(udp(SERVER.v4, shut), { fresh: true, everyMs: 1 }),
  ]
  for (let at = 0; at < 25; at++) {
    // Different priorities, so that the rule changes its place as well.
    const swap = async (id: number, action: string, dest_port: number) => {
      const body = await put(`/api/v1/rules/${id}`, { action, dest_port, priority: at % 2 })
      return (body.rule as { id: number }).id
    }
    admitting = await swap(admitting, 'accept', open)
    forbidding = await swap(forbidding, 'drop', shut)
    await rule({ action: 'accept', dest_port: shut, priority: 5 })
  }
  const [sent, refused] = [await admitted.stop(), await forbidden.stop()]
  t.ok(sent > 100 && refused > 100, `${sent} and ${refused} new connections were tried`)
  t.equal((await server.heard(open, opened + sent)) - opened, sent, 'not one of the admitted was dropped')
  t.equal((await server.heard(shut, shutted)) - shutted, 0, 'not one of the forbidden was admitted')
  await reset()
})

judged('fw-40 rules see addresses before translation', async (t) => {
  router.run('nft', 'add', 'table', 'inet', 'teststand')
  router.run('nft', 'add chain inet teststand pre { type nat hook prerouting priority dstnat; }')
  for (const [ip, to, from] of [
    ['ip', SERVER.v4, ROUTER.v4],
    ['ip6', `[${SERVER.v6}]`, ROUTER.v6],
  ]) {
    router.run('nft', `add rule inet teststand pre ${ip} daddr ${from} udp dport 7777 dnat ${ip} to ${to}:1000`)
  }
  const forwarded = [udp(ROUTER.v4, 7777), udp(ROUTER.v6, 7777)]
  const direct = [udp(SERVER.v4, 1000), udp(SERVER.v6, 1000)]
  await sees(t, client, { pass: [...forwarded, ...direct] }, 'control: the forward works')
  for (const dest_ip of [SERVER.v4, SERVER.v6]) await rule({ action: 'drop', dest_ip, dest_port: 1000 })
  await sees(t, client, { pass: forwarded, drop: direct }, 'a drop on the target does not touch the forward')
  await reset()
  for (const dest_ip of [ROUTER.v4, ROUTER.v6]) await rule({ action: 'drop', dest_ip, dest_port: 7777 })
  await sees(t, client, { pass: direct, drop: forwarded }, 'a drop on the public address does')
  await reset()
  router.run('nft', 'delete', 'table', 'inet', 'teststand')
})

judged('fw-50 a thousand rules are looked up correctly, and one more loses no packet', async (t) => {
  await server.serve('tcp', [3007, 3500, 3996, 3999, 3008, 3501, 3997, 3000])
  const ports = Array.from({ length: 1000 }, (_, at) => 3000 + at)
  const verdict = (port: number) => (port % 7 < 3 ? 'drop' : 'accept')
  const rules = ports.map((dest_port, at) => ({
    action: verdict(dest_port),
    dest_port,
    priority: (at * 7919) % 1000,
    level: LEVELS[at % LEVELS.length],
    ...(at % 3 === 0 && { protocol: 'tcp' }),
    ...(at % 5 === 0 && { dest_ip: SERVER.v4 }),
  }))
  await put('/api/v1/rules/default', { default_action: 'deny' })
  const { body } = await agent.call('POST', '/api/v1/rules/batch', { rules })
  t.equal(body.created, 1000)
  const asked = [3007, 3500, 3996, 3999, 3008, 3501, 3997, 3000].map((port) => tcp(SERVER.v4, port))
  const [pass, drop] = [
    asked.filter(({ port }) => verdict(port) === 'accept'),
    asked.filter(({ port }) => verdict(port) === 'drop'),
  ]
  t.ok(pass.length > 1 && drop.length > 1)
  await sees(t, client, { pass, drop }, 'lookups')

  await rule({ action: 'accept', dest_port: 1001, priority: 500 })
  const before = await server.heard(1001, 0)
  const sprays = [
    await client.spray(udp(SERVER.v4, 1001), { fresh: true, everyMs: 2 }),
    await client.spray(udp(SERVER.v4, 1001), { fresh: false, everyMs: 2 }),
  ]
  for (let at = 0; at < 40; at++) await rule({ action: 'drop', dest_port: 9000, priority: at * 25 })
  let sent = 0
  for (const spray of sprays) sent += await spray.stop()
  t.ok(sent > 100, `${sent} packets were sent meanwhile`)
  t.equal((await server.heard(1001, before + sent)) - before, sent, 'all arrived')
})
