/** The commands of floating IPs against the real routes. */
import { hostname } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { floatArea } from './area.ts'

t.test('floating IPs are added, shown and deleted', async (t) => {
  const { agent } = await floatArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  t.match(await ctl('float list'), { code: 0, out: 'no floating IPs\n' })
  t.match(await ctl('float add 192.0.2.20'), {
    code: 0,
    out: /^floating IP fip-[0-9a-f]{12}: 192\.0\.2\.20 is on this node\n$/,
  })
  t.match(await ctl('float add 192.0.2.21 --primary node-b --standby node-c'), {
    out: /: 192\.0\.2\.21 is on node-b\n$/,
  })
  t.match(await ctl('float list'), {
    out: new RegExp(
      `^ID .*\\nfip-\\w+ +192\\.0\\.2\\.20 +active +${hostname()} +-\\nfip-\\w+ +192\\.0\\.2\\.21 +standby +node-b +node-c\\n$`,
    ),
  })
  const list: { floating_ips: { id: string }[] } = JSON.parse((await ctl('float list --json')).out)
  const [first, second] = list.floating_ips.map(({ id }) => id)
  t.match(await ctl(`float show ${second}`), { code: 0, out: /^id +fip-\w+\nip +192\.0\.2\.21\nprimary +node-b\n/ })
  t.match(await ctl('float add 192.0.2.20'), { code: 1, err: /already exists/ })
  t.match(await ctl('float add'), { code: 2 })
  t.match(await ctl(`float delete ${first}`), { code: 0, out: `floating IP ${first} deleted\n` })
  t.match(await ctl(`float show ${first}`), { code: 1, err: /floating IP fip-\w+ not found/ })
})
