/** The commands of the load balancer against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { lbArea } from './area.ts'

t.test('VIPs and backends are added, shown and deleted', async (t) => {
  const { agent } = await lbArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  await says('lb list', 'no VIPs\n')
  await says('lb add web 192.0.2.10 maglev --port 80', 'VIP web: 192.0.2.10:80/tcp\n')
  await says('lb add all 2001:db8::10 round-robin --protocol udp --dsr', 'VIP all: [2001:db8::10]:*/udp\n')
  const checked = '--check http --interval 9 --timeout 8 --threshold 7 --path /up'
  await says(`lb add api 192.0.2.10 weighted --port 443 ${checked}`, /^VIP api/)
  await says('lb backend add web web1 10.0.0.5 --port 8080 --weight 2', 'backend web1 added to VIP web\n')
  await says('lb backend add web web2 10.0.0.6', /web2/)
  await says('lb backend health web web2 unhealthy', 'backend web2 of VIP web is unhealthy\n')
  await says('lb list', /^ID .*\nweb +192\.0\.2\.10:80\/tcp +maglev +1 of 2\nall .* 0 of 0\napi .*\n$/)
  await says(
    'lb show web',
    /^id +web\n.*\nalgorithm +maglev\ndsr +off\ncheck +none\n\nBACKEND .*\nweb1 +10\.0\.0\.5:8080 +2 +healthy +0\nweb2 +10\.0\.0\.6:80 +1 +unhealthy +0\n$/,
  )
  await says('lb show all', /dsr +on\n.*\nno backends\n$/)
  await says('lb show api', /check +http \/up every 9 s, at most 8 s, 7 in a row\n/)
  t.equal(JSON.parse((await ctl('lb list --json')).out).load_balancers.length, 3)
  await says('lb backend health web web2 healthy', /is healthy\n$/)
  await says('lb backend delete web web1', 'backend web1 removed from VIP web\n')
  t.match(await ctl('lb backend delete web web1'), { code: 1, err: /backend web1 of VIP web not found/ })
  t.match(await ctl('lb backend health web web2 sick'), { code: 2 })
  t.match(await ctl('lb add web 192.0.2.11 maglev'), { code: 1, err: /already exists/ })
  t.match(await ctl('lb add x 192.0.2.11'), { code: 2 })
  await says('lb delete web', 'VIP web deleted\n')
  t.match(await ctl('lb show web'), { code: 1, err: /VIP web not found/ })
})
