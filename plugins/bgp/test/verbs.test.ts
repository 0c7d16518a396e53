/** The commands of BGP against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { bgpArea } from './area.ts'

t.test('neighbors and announcements are added, listed and deleted', async (t) => {
  const { agent } = await bgpArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  await says('bgp status', 'idle: 0 neighbors, 0 routes, 0 BFD sessions up\n')
  await says('bgp neighbors', 'no neighbors\n')
  await says('bgp routes', 'no routes\n')
  await says('bgp add 192.0.2.2 65002 65001 --bfd --hold-time 30', 'neighbor 192.0.2.2 created\n')
  await says('bgp neighbors', /^ADDRESS .*\n192\.0\.2\.2 +65002 +65001 +Idle +down\n$/)
  await says(
    'bgp announce 198.51.100.0/24 --next-hop 192.0.2.9 --communities 1:2,no-export',
    '198.51.100.0/24 announced\n',
  )
  await says('bgp routes ipv4', /\n198\.51\.100\.0\/24 +192\.0\.2\.9 +- +announced +best\n$/)
  t.match(await ctl('bgp announce 198.51.100.1/24'), { code: 1, err: /host bits/ })
  await says('bgp withdraw 198.51.100.0/24', '198.51.100.0/24 withdrawn\n')
  await says('bgp delete 192.0.2.2', 'neighbor 192.0.2.2 deleted\n')
  t.match(await ctl('bgp delete 192.0.2.2'), { code: 1, err: /not found/ })
})
