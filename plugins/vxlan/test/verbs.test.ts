/** The commands of overlays against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { vxlan } from './area.ts'

t.test('overlays and peers are added, listed and deleted', async (t) => {
  const { agent, call } = await vxlan(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  await says('vxlan list', 'no VXLAN networks\n')
  await says('vxlan add 100 --subnet 10.0.0.0/24', 'VXLAN network 100 carries open ports\n')
  const { network } = (await call('POST', '/api/v1/networks', { name: 'lan', cidr: '10.1.0.0/24' })).body
  const { id } = network as { id: string }
  await says('vxlan add 200 --network lan', `VXLAN network 200 carries ${id}\n`)
  await says('vxlan peers list 100', 'no peers\n')
  await says('vxlan peers add 100 node2 192.0.2.2', 'peer node2 added\n')
  await says('vxlan peers add 100 node3 192.0.2.3 --mac 02:00:00:00:00:03', 'peer node3 added\n')
  await says('vxlan peers list 100', /^HOST .*\nnode2 +192\.0\.2\.2 +-\nnode3 +192\.0\.2\.3 +02:00:00:00:00:03\n$/)
  await call('DELETE', `/api/v1/networks/${id}`)
  await says('vxlan list', /^VNI .*\n100 +10\.0\.0\.0\/24 +2 +open ports\n200 .* nothing: network .* is gone\n$/)
  await says('vxlan fdb', 'no forwarding entries\n')
  t.match(await ctl('vxlan add x'), { code: 1, err: /vni/ })
  t.match(await ctl('vxlan peers add 100 node4 nowhere'), { code: 1, err: /vtep_ip/ })
  await says('vxlan peers delete 100 node2', 'peer node2 removed\n')
  t.match(await ctl('vxlan delete 300'), { code: 1, err: /not found/ })
  await says('vxlan delete 100', 'VXLAN network 100 removed\n')
})
