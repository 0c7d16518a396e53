/** VIPs on the real kernel: their addresses as a neighbour of the node sees them, and checks of a real server in real time. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { type Segment, segment, until } from '../../../test/segment.ts'
import { LB } from './area.ts'
import { balanced, laneEnv } from './lane.ts'

requireRoot(t)

const [IP, IP6] = ['10.9.0.20', 'fd09::20']
const HELD = [`eth0 ${IP}/32`, `eth0 ${IP6}/128`]

async function certain({ agent }: Segment, ...what: Parameters<Segment['agent']['call']>) {
  const answer = await agent.call(...what)
  if (answer.status >= 300) throw new Error(`${what[0]} ${what[1]}: ${answer.text}`)
  return answer.body
}

const vip = (place: Segment, id: string, frontend_ip: string, fields: object = {}) =>
  certain(place, 'POST', LB, { id, frontend_ip, frontend_port: 80, algorithm: 'maglev', ...fields })

balanced('lb-02 lb-08 D75 the address answers when its VIP was made, is told, and goes with the last', async (t) => {
  const place = await segment(t, { env: laneEnv })
  const { node, heard, held, known, answers, mac, neighbour } = place
  await vip(place, 'a', IP)
  await vip(place, 'b', IP, { frontend_port: 81 })
  await vip(place, 'c', IP6)
  t.same(held(), HELD)
  t.same([answers(IP), answers(IP6)], [true, true])
  await heard.until(IP, 5)
  await heard.until(IP6, 5)
  t.same([heard.of().length, known(IP)], [10, mac(node)], 'five times each, and nothing else')
  await certain(place, 'DELETE', `${LB}/a`)
  t.same(held(), HELD)
  await certain(place, 'DELETE', `${LB}/b`)
  await certain(place, 'DELETE', `${LB}/c`)
  t.same(held(), [])
  neighbour.run('ip', 'neigh', 'flush', 'all')
  t.same([answers(IP), answers(IP6)], [false, false])
})

balanced('lb-26 they outlive a kill and a boot; what others took is put back', async (t) => {
  const place = await segment(t, { env: laneEnv })
  const { agent, node, held, answers } = place
  await vip(place, 'a', IP)
  await certain(place, 'POST', `${LB}/a/backends`, { id: 'b1', ip: '10.9.0.2', weight: 3 })
  const list = (await agent.call('GET', LB)).text
  await agent.kill('SIGKILL')
  t.same([held(), answers(IP)], [[`eth0 ${IP}/32`], true], 'without an agent')
  node.run('ip', 'address', 'del', `${IP}/32`, 'dev', 'eth0')
  await agent.restart()
  t.same([held(), (await agent.call('GET', LB)).text], [[`eth0 ${IP}/32`], list])
  node.run('ip', 'address', 'del', `${IP}/32`, 'dev', 'eth0')
  await until('it is put back', () => held().length === 1)
})

balanced('D75 an address that the node had before stays as it is', async (t) => {
  const place = await segment(t, { env: laneEnv })
  const { agent, node, held } = place
  node.run('ip', 'address', 'add', '10.9.0.30/32', 'dev', 'lo')
  const before = held()
  await vip(place, 'a', '10.9.0.30')
  t.same(held(), before)
  await certain(place, 'DELETE', `${LB}/a`)
  t.same(held(), before)
  const refused = await agent.call('POST', LB, { id: 'b', frontend_ip: '10.9.0.255', algorithm: 'maglev' })
  t.match(refused, { status: 409, body: { error: /in use on this node already \(broadcast\)/ } })
})

balanced('lb-20 a server is found healthy, and unhealthy when it ends', async (t) => {
  const place = await segment(t, { env: laneEnv })
  const { neighbour, agent } = place
  const server = neighbour.spawn(process.execPath, ['-e', "require('net').createServer().listen(8080, '10.9.0.254')"])
  const health_check = { type: 'tcp', interval_sec: 2, timeout_sec: 1, threshold: 1 }
  await vip(place, 'a', IP, { health_check })
  await certain(place, 'POST', `${LB}/a/backends`, { id: 'b1', ip: '10.9.0.254', port: 8080 })
  const healthy = async () => {
    const { load_balancer } = await certain(place, 'GET', `${LB}/a`)
    return (load_balancer as { backends: { healthy: boolean }[] }).backends[0]?.healthy
  }
  t.equal(await healthy(), false)
  await until('it is found', async () => (await healthy()) === true)
  await agent.restart()
  t.equal(await healthy(), true)
  server.kill('SIGKILL')
  await until('it is missed', async () => (await healthy()) === false)
})
