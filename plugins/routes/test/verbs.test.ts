/** The commands of routes and policy rules against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { verbs } from '../verbs.ts'
import { routesArea } from './area.ts'

async function node(t: Scope) {
  const { agent } = await routesArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  return { ctl, json: async (line: string) => JSON.parse((await ctl(`${line} --json`)).out) }
}

t.test('routes', async (t) => {
  const { ctl, json } = await node(t)
  t.match(await ctl('routes list'), { code: 0, out: 'no routes\n' })
  const { route } = await json('routes add 10.20.0.0/16 --gateway 192.0.2.1 --interface eth0 --metric 5 --table 100')
  t.same(route, { id: 1, destination: '10.20.0.0/16', gateway: '192.0.2.1', interface: 'eth0', metric: 5, table: 100 })
  t.match(await ctl('routes add fd00::/64 --interface eth0'), { code: 0, out: 'route 2 added to table main\n' })
  t.match(await ctl('routes list'), {
    out: /^ID .*\n1 +10\.20\.0\.0\/16 +192\.0\.2\.1 +eth0 +5 +100\n2 +fd00::\/64 +- +eth0 +1024 +main\n$/,
  })
  t.match(await ctl('routes list --table 0'), { out: /^ID .*\n2 [^\n]*\n$/ })
  t.match(await ctl('routes list --table x'), { code: 1, err: /table/ })
  t.match(await ctl('routes add 10.0.0.1/8 --interface eth0'), { code: 1, err: /the block is 10\.0\.0\.0\/8/ })
  t.match(await ctl('routes add'), { code: 2 })
  t.match(await ctl('routes delete 1'), { code: 0, out: 'route 1 deleted\n' })
  t.match(await ctl('routes delete 1'), { code: 1, err: /route 1 not found/ })
})

t.test('policy rules', async (t) => {
  const { ctl, json } = await node(t)
  t.match(await ctl('routes rules list'), { code: 0, out: 'no policy rules\n' })
  const { rule } = await json('routes rules add --table 100 --fwmark 0x10 --iif eth0')
  t.match(rule, { id: 1, priority: 10_000, fwmark: 16, iif: 'eth0', table: 100 })
  t.match(await ctl('routes rules add --table 7 --from 10.0.0.0/8 --to 192.0.2.0/24 --oif eth1 --priority 5'), {
    out: 'policy rule 2 added with priority 5\n',
  })
  t.match(await ctl('routes rules list'), {
    out: /\n2 +5 +from 10\.0\.0\.0\/8 to 192\.0\.2\.0\/24 oif eth1 +7\n1 +10000 +fwmark 0x10 iif eth0 +100\n$/,
  })
  t.match(await ctl('routes rules add --table 7 --fwmark many'), { code: 1, err: /fwmark/ })
  t.match(await ctl('routes rules add --from 10.0.0.0/8'), { code: 2, err: /--table/ })
  t.match(await ctl('routes rules delete 1'), { code: 0, out: 'policy rule 1 deleted\n' })
  t.match(await ctl('routes rules delete 1'), { code: 1, err: /policy rule 1 not found/ })
})
