/** Pins of the agent deleted by somebody: what is changed then is in force when it is answered, and what was, still is. */
import t from 'tap'
import { requireRoot } from './netns.ts'
import { machine, network, WIPES, wipe } from './pins.ts'
import { workloadNode } from './workload.ts'

requireRoot(t)

const P = '/api/v1'

for (const what of WIPES) {
  t.test(`networks, machines and rules are in force after ${what} among the pins was deleted`, async (t) => {
    const node = await workloadNode(t)
    const { call } = node.agent
    const at = await network(node, 'first', '10.1.0.0/24')
    const [a, b] = [await machine(node, 'a', at), await machine(node, 'b', at)]
    t.ok(a.reaches('10.1.0.3') && b.reaches('10.1.0.1'))
    const judged = (said: string) => {
      t.ok(a.reaches('10.1.0.3'), `${said}: what passed goes on`)
      t.notOk(a.pings('10.1.0.3', '10.1.0.77'), `${said}: a source address that is another's is refused`)
    }
    a.ns.run('ip', 'address', 'add', '10.1.0.77/24', 'dev', 'eth0')
    judged('before')

    wipe(node.ns, what)
    await network(node, 'second', '10.2.0.0/24')
    judged('a network')

    wipe(node.ns, what)
    const c = await machine(node, 'c', at)
    t.ok(c.reaches('10.1.0.2'), 'who is attached is heard')
    c.ns.run('ip', 'address', 'add', '10.1.0.78/24', 'dev', 'eth0')
    t.notOk(c.pings('10.1.0.2', '10.1.0.78'), 'as itself only')
    judged('a machine')

    wipe(node.ns, what)
    const { rule } = (await node.ok('POST', `${P}/rules`, {
      action: 'drop',
      protocol: 'icmp',
      source_ip: '10.1.0.2',
      dest_ip: '10.1.0.1',
    })) as { rule: { id: number } }
    t.notOk(a.pings('10.1.0.1'), 'a rule drops')
    t.ok(b.pings('10.1.0.1'), 'and nothing else')
    judged('a rule')

    wipe(node.ns, what)
    t.equal((await call('DELETE', `${P}/rules/${rule.id}`)).status, 200)
    t.ok(a.reaches('10.1.0.1'), 'the rule is gone')

    wipe(node.ns, what)
    await node.ok('PUT', `${P}/rules/default`, { default_action: 'deny' })
    t.notOk(b.pings('10.1.0.1'), 'nothing passes that no rule accepts')

    wipe(node.ns, what)
    await node.ok('PUT', `${P}/rules/default`, { default_action: 'allow' })
    t.ok(b.reaches('10.1.0.1'), 'everything passes')
    judged('the default')
  })
}
