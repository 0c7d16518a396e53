/** The commands of the gateway against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { gatewayArea, VIP } from './area.ts'

t.test('status, failover and failback', async (t) => {
  const { agent, set } = await gatewayArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  t.match(await ctl('gateway status'), { code: 0, out: /^state +standby\nvip +-\npeer +-\npeer state +solo\n/ })
  t.match(await ctl('gateway failover'), { code: 1, err: /gateway service not available/ })
  await set({ gateway_vip: VIP })
  t.match(await ctl('gateway status'), { code: 0, out: /^state +active\nvip +192\.0\.2\.10\n/ })
  t.match(await ctl('gateway failover'), { code: 0, out: 'the VIP is released\n' })
  t.same(JSON.parse((await ctl('gateway failback --json')).out), { status: 'failback_triggered' })
  t.match(await ctl('gateway failback'), { code: 0, out: 'this node has the VIP\n' })
})
