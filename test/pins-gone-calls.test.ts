/** Pins of the agent deleted by somebody: no call fails, and the next agent judges. */
import t from 'tap'
import { startAgent } from './agent.ts'
import { netns, requireRoot } from './netns.ts'
import { machine, network, WIPES, wipe } from './pins.ts'
import { workloadNode } from './workload.ts'

requireRoot(t)

const P = '/api/v1'

for (const what of WIPES) {
  t.test(
    `an agent that is killed after ${what} among the pins was deleted is followed by one that judges`,
    async (t) => {
      const node = await workloadNode(t)
      const at = await network(node, 'first', '10.1.0.0/24')
      const [a, b] = [await machine(node, 'a', at), await machine(node, 'b', at)]
      wipe(node.ns, what)
      await node.agent.kill('SIGKILL')
      await node.agent.restart()
      // Without the links nobody can tell whether a port is still the device it was: its machine is known again once it sends.
      t.ok(b.reaches('10.1.0.1'), 'one of before')
      t.ok(a.reaches('10.1.0.3'), 'those of before')
      const c = await machine(node, 'c', at)
      t.ok(c.reaches('10.1.0.2'), 'and who comes')
      c.ns.run('ip', 'address', 'add', '10.1.0.78/24', 'dev', 'eth0')
      t.notOk(c.pings('10.1.0.2', '10.1.0.78'), 'as itself only')
      await node.ok('POST', `${P}/rules`, {
        action: 'drop',
        protocol: 'icmp',
        source_ip: '10.1.0.2',
        dest_ip: '10.1.0.1',
      })
      t.notOk(a.pings('10.1.0.1'), 'a rule drops')
    },
  )
}

t.test('no call fails after all pins were deleted', async (t) => {
  const ns = netns(t)
  const agent = await startAgent(t, { ns })
  const { body } = await agent.call('POST', `${P}/networks`, { name: 'first', cidr: '10.1.0.0/24' })
  const { id } = body.network as { id: string }
  const backends = [{ id: 'b', ip: '10.1.0.1', port: 80 }]
  const vip = {
    id: 'v',
    frontend_ip: '198.18.9.9',
    algorithm: 'round-robin',
    protocol: 'tcp',
    frontend_port: 80,
    backends,
  }
  const target_mac = '02:00:00:00:00:03'
  const changes: [method: 'POST' | 'PUT' | 'DELETE', path: string, body?: object][] = [
    ['POST', '/networks', { name: 'second', cidr: '10.2.0.0/24' }],
    ['POST', `/networks/${id}/attach`, {}],
    ['POST', '/rules', { action: 'drop', dest_port: 9 }],
    ['PUT', '/rules/default', { default_action: 'deny' }],
    ['POST', '/lb', vip],
    ['POST', '/lb/v/backends', { id: 'c', ip: '10.1.0.9', port: 80 }],
    ['POST', '/lb/v/backends/c/health', { healthy: false }],
    ['DELETE', '/lb/v/backends/c'],
    ['POST', '/bandwidth', { id: 'l', target_mac, rate_bps: 1_000_000 }],
    ['POST', '/bandwidth/pools', { id: 'p', total_bps: 1_000_000 }],
    ['POST', '/bandwidth/quotas', { id: 'q', mac: target_mac, monthly_limit_bytes: 1_000_000 }],
    ['DELETE', '/bandwidth/l'],
    ['DELETE', '/lb/v'],
  ]
  for (const [method, path, body] of changes) {
    wipe(ns, 'everything')
    const { status, text } = await agent.call(method, `${P}${path}`, body)
    t.ok(status < 300, `${method} ${path}: ${status} ${text}`)
  }
  t.same(
    agent.logged.filter(({ msg }) => msg === 'a request failed').map(({ err }) => err),
    [],
  )
  await agent.restart()
  t.equal((await agent.call('POST', `${P}/rules`, { action: 'drop', dest_port: 10 })).status, 201)
})
