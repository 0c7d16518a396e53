/** The VIP on the real kernel, between two nodes, as a neighbour of theirs sees it. */
import { join } from 'node:path'
import t from 'tap'
import { Database } from '../../../core/state/sqlite.ts'
import { requireRoot } from '../../../test/netns.ts'
import { segment, until } from '../../../test/segment.ts'
import { FAILBACK, FAILOVER, STATUS } from './area.ts'

requireRoot(t)

const [VIP, VIP6] = ['10.9.0.10', 'fd09::10']
const HELD = [`eth0 ${VIP}/32`, `eth0 ${VIP6}/128`]
const BOTH = { gateway_vip: `${VIP},${VIP6}` }

t.test('gw-04 gw-05 D86 D88 who talks to the VIP follows it from node to node', async (t) => {
  const { agent, node, other, neighbour, heard, held, known, answers, mac } = await segment(t, { config: BOTH })
  const state = async () => (await agent.call('GET', STATUS)).body.local_state
  t.same([await state(), held()], ['active', HELD])
  await heard.until(VIP, 5)
  await heard.until(VIP6, 5)
  t.same([answers(VIP), answers(VIP6), known(VIP), known(VIP6)], [true, true, mac(node), mac(node)])
  t.match(node.run('ip', '-6', 'route', 'get', 'fd09::254'), / src fd09::1 /, 'the node does not send from it')
  t.match(node.run('ip', '-4', 'route', 'get', '10.9.0.254'), / src 10\.9\.0\.1 /)

  t.equal((await agent.call('POST', FAILOVER)).status, 200)
  t.same([held(), await state()], [[], 'standby'], 'it has left when the call answers')
  // The other node takes it, and the neighbour learns that the hard way.
  for (const address of [`${VIP}/32`, `${VIP6}/128`]) {
    other.run('ip', 'address', 'add', address, 'dev', 'eth0', ...(address.includes(':') ? ['nodad'] : []))
  }
  neighbour.run('ip', 'neigh', 'flush', 'all')
  t.same([answers(VIP), answers(VIP6), known(VIP), known(VIP6)], [true, true, mac(other), mac(other)])
  other.run('ip', 'address', 'del', `${VIP}/32`, 'dev', 'eth0')
  other.run('ip', 'address', 'del', `${VIP6}/128`, 'dev', 'eth0')
  const before = heard.of().length

  t.equal((await agent.call('POST', FAILBACK)).status, 200)
  t.same([held(), await state()], [HELD, 'active'], 'it is here when the call answers')
  await until('the neighbour knows', () => known(VIP) === mac(node) && known(VIP6) === mac(node))
  t.same([answers(VIP), answers(VIP6)], [true, true])
  await heard.until(VIP, 10)
  await heard.until(VIP6, 10)
  t.equal(heard.of().length, before + 10)
  const repeated = [await agent.call('POST', FAILBACK), await agent.call('POST', FAILOVER)]
  t.same(
    repeated.map(({ status }) => status),
    [200, 200],
  )
  t.same(held(), [])
})

t.test('gw-03 a kill interrupts nothing, and who holds the VIP keeps it until a boot', async (t) => {
  const { agent, node, neighbour, heard, held, set, known, mac } = await segment(t, { config: BOTH })
  const repairs = () => agent.logged.filter(({ msg }) => msg === 'kernel brought to the store').length
  await heard.until(VIP, 5)
  await heard.until(VIP6, 5)
  await set({ gateway_peer: '10.9.0.2' })
  t.same(held(), HELD)
  t.match((await agent.call('GET', STATUS)).body, {
    local_state: 'active',
    heartbeat: 'not running',
    peer_addr: '10.9.0.2',
  })

  const repaired = repairs()
  const pings = neighbour.spawn('ping', ['-n', '-q', '-i', '0.05', '-c', '40', VIP])
  let said = ''
  pings.stdout?.on('data', (part) => {
    said += part
  })
  const ended = new Promise((resolve) => pings.once('exit', resolve))
  await agent.kill('SIGKILL')
  t.same(held(), HELD, 'without an agent')
  await agent.restart()
  await ended
  t.match(said, /40 packets transmitted, 40 received/)
  t.same([held(), repairs()], [HELD, repaired], 'nothing had to be touched')
  await heard.until(VIP, 6)
  await heard.until(VIP6, 6)
  t.equal((await agent.call('GET', STATUS)).body.local_state, 'active')

  await agent.kill('SIGKILL')
  const db = new Database(join(agent.stateDir, 'stratum.db'))
  t.equal(db.prepare("UPDATE gateway_role SET boot = 'an earlier one'").run().changes, 1)
  db.close()
  for (const one of HELD) node.run('ip', 'address', 'del', one.replace('eth0 ', ''), 'dev', 'eth0')
  const before = heard.of().length
  await agent.restart()
  t.same([held(), (await agent.call('GET', STATUS)).body.local_state], [[], 'standby'], 'after a boot')
  t.equal(heard.of().length, before, 'nothing was told while it is standby')
  t.equal((await agent.call('POST', FAILBACK)).status, 200, 'the order of an operator is heeded')
  t.same(held(), HELD)
  await heard.until(VIP, 7)
  t.equal(known(VIP), mac(node))
})

t.test('D86 what others take away, and what goes with the device, is put back and told anew', async (t) => {
  const { agent, node, heard, held, plug, mac } = await segment(t, { config: BOTH })
  await heard.until(VIP, 5)
  node.run('ip', 'address', 'del', `${VIP}/32`, 'dev', 'eth0')
  await until('it is back', () => held().join() === HELD.join())
  await heard.until(VIP, 6)

  node.run('ip', 'route', 'del', 'default')
  await agent.restart()
  t.same(held(), HELD, 'it stays while no uplink is known')

  node.run('ip', 'link', 'del', 'eth0')
  await until('it is told to wait', async () =>
    /^stratum_gateway_waiting 2$/m.test((await agent.call('GET', '/api/v1/metrics')).text),
  )
  plug()
  await until('it is back with the device', () => held().join() === HELD.join())
  await until('the neighbour is told', () => heard.of(VIP).at(-1)?.mac === mac(node))

  t.equal((await agent.call('POST', FAILOVER)).status, 200)
  t.same(held(), [])
})

t.test('what is in the way is said, and nothing is changed', async (t) => {
  const { agent, node, held, set } = await segment(t, { config: { ...BOTH, gateway_peer: '10.9.0.2' } })
  node.run('ip', 'address', 'add', `${VIP}/24`, 'dev', 'lo')
  const refused = await agent.call('POST', FAILBACK)
  t.same(
    [refused.status, refused.body.error],
    [409, `${VIP} is in use on this node already (local): take it away first`],
  )
  t.same(held(), [`lo ${VIP}/24`])
  node.run('ip', 'address', 'del', `${VIP}/24`, 'dev', 'lo')
  await set({ gateway_interface: 'away0' })
  const away = await agent.call('POST', FAILBACK)
  t.equal(away.status, 409)
  t.match(away.body.error, /interface away0 does not exist/)
  t.same([held(), (await agent.call('GET', STATUS)).body.local_state], [[], 'standby'])
  await set({ gateway_interface: 'eth0' })
  t.equal((await agent.call('POST', FAILBACK)).status, 200)
  t.same(held(), HELD)
  await set({ gateway_vip: `${VIP}/24,10.9.5.1/24` })
  t.same(held(), [`eth0 ${VIP}/24`, 'eth0 10.9.5.1/24'], 'with a length it has a neighbourhood')
  t.match(node.run('ip', 'route'), /10\.9\.5\.0\/24 dev eth0/)
  t.equal((await agent.call('POST', FAILOVER)).status, 200)
  t.same(held(), [])
  t.match(node.run('ip', 'address'), /10\.9\.0\.1\/24/, "the node's own stays")
  t.match(node.run('ip', 'route'), /^default via 10\.9\.0\.254 dev eth0/, 'and so do its routes')
  t.notMatch(node.run('ip', 'route'), /10\.9\.5\.0/)
  t.equal((await agent.call('POST', FAILBACK)).status, 200)
  t.same(held(), [`eth0 ${VIP}/24`, 'eth0 10.9.5.1/24'])
  const conns = async () => (await agent.call('GET', STATUS)).body.active_conns as number
  node.run('ping', '-c', '1', '10.9.0.254')
  t.ok((await conns()) > 0, 'connections are counted')
  t.equal((await agent.call('POST', FAILOVER)).status, 200)
  t.same(held(), [])
})

t.test('gw-04 a VIP that somebody else keeps on this node cannot be yielded', async (t) => {
  const { agent, node, held } = await segment(t, { config: BOTH })
  const theirs = (what: 'add' | 'del') => node.run('ip', 'address', what, `${VIP}/32`, 'dev', 'eth0')
  await agent.kill('SIGKILL')
  theirs('del')
  theirs('add')
  await agent.restart()
  const refused = await agent.call('POST', FAILOVER)
  t.same(
    [refused.status, refused.body.error],
    [409, `${VIP} is in use on this node already (local): take it away first`],
  )
  t.equal((await agent.call('GET', STATUS)).body.local_state, 'active')
  t.same([...held()].sort(), [...HELD].sort())
  theirs('del')
  t.equal((await agent.call('POST', FAILOVER)).status, 200)
  t.same(held(), [])
})
