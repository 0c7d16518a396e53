/** Bonds and the agent's own process: traffic goes on while it is killed, and after a start. */
import { join } from 'node:path'
import t from 'tap'
import { startAgent } from '../../../test/agent.ts'
import { here } from '../../../test/inside.ts'
import { PATIENCE, requireFeatures } from '../../../test/kernel-features.ts'
import { netns, netnsNamed, requireRoot } from '../../../test/netns.ts'
import { cable, linkNow, pinging, run, until } from './bond-site.ts'

if (requireRoot(t) && here !== undefined && requireFeatures(t, 'bonding')) all(here)

function all(name: string) {
  t.test('persist-02 a killed agent interrupts no packet on a bond, and neither does its start', async (t) => {
    const far = netns(t, 'far')
    const agent = await startAgent(t, { ns: netnsNamed(t, name), main: join(import.meta.dirname, 'bond-agent.js') })
    cable(far, 'm1', 'p1')
    cable(far, 'm2', 'p2')
    far.run('ip', 'link', 'add', 'far0', 'type', 'bond', 'mode', '802.3ad', 'lacp_rate', 'fast', 'miimon', '50')
    for (const port of ['p1', 'p2']) {
      far.run('ip', 'link', 'set', port, 'down')
      far.run('ip', 'link', 'set', port, 'master', 'far0')
    }
    far.run('ip', 'link', 'set', 'far0', 'up')
    far.run('ip', 'address', 'add', '192.0.2.2/24', 'dev', 'far0')
    await agent.call('POST', '/api/v1/bonds', { id: 'lan', name: 'bond0', mode: '802.3ad' })
    for (const port of ['m1', 'm2']) {
      const added = await agent.call('POST', '/api/v1/bonds/lan/members', { interface: port })
      t.equal(added.status, 200, added.text)
    }
    run('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'bond0')
    const both = async () => JSON.stringify((await agent.call('GET', '/api/v1/bonds/lan')).body)
    await until('aggregated', both, (text) => text.split('"active"').length === 3)
    run('ping', '-n', '-q', '-c', '1', '-w', `${20 * PATIENCE}`, '192.0.2.2')
    const { ifindex } = linkNow('bond0') ?? {}
    const flood = pinging(far, '192.0.2.1')
    for (const round of [1, 2]) {
      await agent.kill('SIGKILL')
      await agent.restart()
      t.equal(linkNow('bond0')?.ifindex, ifindex, `the same bond after kill ${round}`)
    }
    const { sent, lost } = await flood.stop()
    t.comment(`${lost} of ${sent} packets lost`)
    t.ok(sent > 50)
    t.equal(lost, 0)
    run('ip', 'address', 'flush', 'dev', 'bond0')
    t.equal((await agent.call('DELETE', '/api/v1/bonds/lan')).status, 200)
    t.equal(linkNow('bond0'), undefined)
    for (const port of ['m1', 'm2']) run('ip', 'link', 'del', port)
  })
}
