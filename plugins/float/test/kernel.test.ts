/** Floating IPs on the real kernel, as a neighbour of the node sees them. */
import t from 'tap'
import { requireRoot, veth } from '../../../test/netns.ts'
import { type Segment, segment, until } from '../../../test/segment.ts'
import { FLOAT } from './area.ts'

requireRoot(t)

const [IP, IP6] = ['10.9.0.20', 'fd09::20']
const HELD = [`eth0 ${IP}/32`, `eth0 ${IP6}/128`]

async function both({ agent }: Segment): Promise<string[]> {
  const ids: string[] = []
  for (const ip of [IP, IP6]) {
    const { status, body, text } = await agent.call('POST', FLOAT, { ip })
    if (status !== 201) throw new Error(`${ip}: ${status} ${text}`)
    ids.push((body.floating_ip as { id: string }).id)
  }
  return ids
}

t.test(
  'float-02 float-04 D86 an address answers when it was added, is told, and is gone when it was deleted',
  async (t) => {
    const place = await segment(t)
    const { agent, node, other, heard, held, known, answers, mac, neighbour } = place
    // What the neighbours remember of another node is what they are told about.
    other.run('ip', 'address', 'add', `${IP}/32`, 'dev', 'eth0')
    t.same([answers(IP), known(IP)], [true, mac(other)])
    other.run('ip', 'address', 'del', `${IP}/32`, 'dev', 'eth0')
    const ids = await both(place)
    t.same(held(), HELD)
    await until('the neighbour knows', () => known(IP) === mac(node))
    t.same([answers(IP), answers(IP6), known(IP6)], [true, true, mac(node)])
    await heard.until(IP, 5)
    await heard.until(IP6, 5)
    t.equal(heard.of().length, 10, 'five times each, and nothing else')
    for (const id of ids) t.equal((await agent.call('DELETE', `${FLOAT}/${id}`)).status, 200)
    t.same(held(), [])
    neighbour.run('ip', 'neigh', 'flush', 'all')
    t.same([answers(IP), answers(IP6)], [false, false])
  },
)

t.test('float-06 float-07 they outlive a kill and a boot, with the same ids', async (t) => {
  const place = await segment(t)
  const { agent, node, heard, held, answers } = place
  await both(place)
  await agent.call('POST', FLOAT, { ip: '10.9.0.21', primary: 'node-b' })
  const list = (await agent.call('GET', FLOAT)).body
  await heard.until(IP, 5)
  await heard.until(IP6, 5)
  const repairs = () => agent.logged.filter(({ msg }) => msg === 'kernel brought to the store').length
  const repaired = repairs()
  await agent.kill('SIGKILL')
  t.same([held(), answers(IP), answers(IP6)], [HELD, true, true], 'without an agent')
  await agent.restart()
  t.same(
    [held(), (await agent.call('GET', FLOAT)).body, repairs()],
    [HELD, list, repaired],
    'nothing had to be touched',
  )
  await heard.until(IP, 6)
  await heard.until(IP6, 6)

  await agent.kill('SIGKILL')
  for (const one of HELD) node.run('ip', 'address', 'del', one.replace('eth0 ', ''), 'dev', 'eth0')
  await agent.restart()
  t.same([held(), (await agent.call('GET', FLOAT)).body], [HELD, list], 'as after a boot')
  await heard.until(IP, 7)
  await heard.until(IP6, 7)
  t.equal(heard.of('10.9.0.21').length, 0, 'what is on another node is not told')
})

t.test('they follow the uplink, and come back with it', async (t) => {
  const place = await segment(t)
  const { agent, node, other, heard, held, plug, set, mac } = place
  await both(place)
  await heard.until(IP, 5)
  veth(t, { ns: node, name: 'eth1', addr: '10.9.1.1/24' }, { ns: other, name: 'eth1', addr: '10.9.1.2/24' })
  await set({ uplink: 'eth1' })
  t.same(
    held(),
    HELD.map((one) => one.replace('eth0', 'eth1')),
  )
  await set({ uplink: 'eth0' })
  t.same(held(), HELD)
  await heard.until(IP, 6)
  node.run('ip', 'link', 'del', 'eth0')
  const waiting = async () =>
    /^stratum_float_waiting (\d)$/m.exec((await agent.call('GET', '/api/v1/metrics')).text)?.[1]
  await until('both wait', async () => (await waiting()) === '2')
  plug()
  await until('both are back', () => held().join() === HELD.join())
  await until('the neighbour is told', () => heard.of(IP).at(-1)?.mac === mac(node))
  node.run('ip', 'address', 'del', `${IP6}/128`, 'dev', 'eth0')
  await until('what others took is put back', () => held().join() === HELD.join())
})

t.test('what the node uses already is refused, and so is what the kernel does not take', async (t) => {
  const { agent, node, held, set } = await segment(t)
  node.run('ip', 'address', 'add', '10.9.0.30/32', 'dev', 'lo')
  const refused: [string, RegExp][] = [
    ['10.9.0.1', /in use on this node already \(local\)/],
    ['fd09::1', /in use on this node already \(local\)/],
    ['10.9.0.30', /in use on this node already \(local\)/],
    ['10.9.0.255', /in use on this node already \(broadcast\)/],
  ]
  for (const [ip, why] of refused) {
    const { status, body } = await agent.call('POST', FLOAT, { ip })
    t.equal(status, 409, ip)
    t.match(body.error, why)
  }
  await set({ uplink: 'away0' })
  const away = await agent.call('POST', FLOAT, { ip: IP })
  t.equal(away.status, 409)
  t.match(away.body.error, /interface away0 does not exist/)
  await set({ uplink: 'eth0' })
  t.same([held(), (await agent.call('GET', FLOAT)).body], [['lo 10.9.0.30/32'], { floating_ips: [] }])
})
