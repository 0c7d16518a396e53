/** The commands of flows and accounting against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'
import { flowsArea, MINUTE } from './area.ts'

const MAC = '02:ce:00:00:00:0a'

t.test('flow-05 flow-07 acct-02 flows are listed and exported, traffic is told and billed', async (t) => {
  const { agent, flows, count, read, clock } = await flowsArea(t)
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const says = async (line: string, out: string | RegExp) => t.match(await ctl(line), { code: 0, out }, line)
  await says('flows list', 'no flows\n')
  await says('flows stats', /^FLOWS +ACTIVE.*\n0 +0 +0 +0\n$/)
  await says('accounting billing', /^no traffic\n.*: 0 USD\n$/)
  flows.push({
    ...{ id: 'a', srcIp: 'fd00::1', dstIp: '10.0.0.2', srcPort: 1, dstPort: 443, protocol: 6, state: 'active' },
    ...{ bytesIn: 5, bytesOut: 6, packetsIn: 1, packetsOut: 2, start: clock.now, last: clock.now },
  })
  await read()
  clock.now += 5 * MINUTE
  count(MAC, { upBytes: 37_500_000, upPackets: 1 })
  await read()
  await says('flows list --state active --limit 3', /\ntcp +\[fd00::1\]:1 +10\.0\.0\.2:443 +active +5 +6 /)
  await says('flows list --state new', 'no flows\n')
  await says('flows stats', /\n1 +1 +11 +3\n\nTALKER.*\n10\.0\.0\.2 +3 +11 +1\n/)
  await says('flows export --format csv', /^id,.*\r\na,fd00::1,/)
  await says('flows export', /^\{"flows":\[\{"id":"a"/)
  t.equal(JSON.parse((await ctl('flows list --json')).out).count, 1)
  await says('accounting summary', /\n2030-01-01T00:00:00\.000Z .* 37500000 +0\.0375 +1 +1 +0\n$/)
  await says('accounting billing --rate 0.5', new RegExp(`\n${MAC} +37500000 +0.0375 +1 +0.5\n.*: 0.5 USD\n$`))
  await says('accounting percentile', /\n2030-01-01T00:00:00\.000Z .* 0 +1\n$/)
  t.match(await ctl('flows list --state open'), { code: 1, err: /state/ })
  t.match(await ctl('accounting percentile --start x'), { code: 1, err: /start/ })
})
