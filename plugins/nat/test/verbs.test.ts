/** The commands of port forwards and source NAT against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { nat } from './area.ts'

t.test('forwards and source NAT are added, listed and deleted', async (t) => {
  const { agent } = await nat(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  await says('forward list', 'no port forwards\n')
  await says('snat list', 'no source NAT\n')
  await says('forward add 192.0.2.1 80 10.0.0.5 8080', 'rule 1: 192.0.2.1:80 goes to 10.0.0.5:8080\n')
  await says('forward add 2001:db8::1 80 fd00::5 8080', 'rule 2: [2001:db8::1]:80 goes to [fd00::5]:8080\n')
  await says('snat add 10.0.0.0/24', 'rule 3: 10.0.0.0/24 leaves by away0 under the address of the node\n')
  await says('snat add 10.0.0.0/24 --interface eth1', /^rule 4: .* eth1 /)
  await says('forward list', /^ID .*\n1 .*\n2 +\[2001:db8::1\]:80 +\[fd00::5\]:8080\n$/)
  await says('snat list', /^ID .*\n3 +10\.0\.0\.0\/24 +away0\n4 .*eth1\n$/)
  t.equal(JSON.parse((await ctl('snat list --json')).out).nat_rules.length, 2)
  t.match(await ctl('forward delete 3'), { code: 1, err: /not found/ })
  t.match(await ctl('forward add 192.0.2.1 http 10.0.0.5 8080'), { code: 1, err: /dest_port/ })
  t.match(await ctl('snat add x'), { code: 1, err: /source_cidr/ })
  await says('forward delete 1', 'rule 1 deleted\n')
  await says('snat delete 3', 'rule 3 deleted\n')
})
