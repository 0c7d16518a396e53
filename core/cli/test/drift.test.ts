/** What an operator sees of drift: `drift check` and `service status`, against the real routes and a kernel that is a fake. */
import { join } from 'node:path'
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { buildArea, scratch } from '../../../test/build.ts'
import { listenControl } from '../../transport/listener.ts'
import { allVerbs } from '../table.ts'
import { ctlFor } from './control.ts'

t.test('drift check shows what differs, repairs it, and says why it cannot', async (t) => {
  const { agent, plane, call } = await buildArea(t, 'firewall', { clock: () => 0 })
  const socket = join(scratch(t, 'ctl'), 'control.sock')
  const control = await listenControl(agent.app.routing.bind(agent.app), socket)
  t.teardown(() => control.close(0))
  const ctl = ctlFor(await allVerbs(), socket)
  for (let n = 0; n < 30; n++) await call('POST', '/api/v1/rules', { action: 'accept' })

  t.match(await ctl('drift check'), { code: 0, out: 'the kernel holds what is stored\n', err: '' })
  plane.entries.delete('firewall/7')
  const rows = 'OBJECT      WAS\nfirewall/7  missing\n'
  t.match(await ctl('drift check --dry-run'), { code: 0, out: `differs: 1, not repaired\n${rows}` })
  t.notOk(plane.entries.has('firewall/7'))
  t.match(await ctl('drift check'), { code: 0, out: `repaired: 1 added, 0 changed, 0 removed\n${rows}` })
  t.ok(plane.entries.has('firewall/7'))
  t.same(JSON.parse((await ctl('drift check --json')).out), {
    status: 'clean',
    differing: 0,
    found: [],
    added: 0,
    changed: 0,
    removed: 0,
  })
  for (let n = 1; n <= 30; n++) plane.entries.delete(`firewall/${n}`)
  t.match(await ctl('drift check --dry-run'), { out: /^differs: 30, not repaired\n(.*\n){21}and 10 more\n$/ })

  t.notMatch((await ctl('service status')).out, /trouble/)
  plane.apply = () => Promise.reject(new KernelRefusal('Device or resource busy'))
  t.match(await ctl('drift check'), {
    code: 1,
    err: /not everything could be repaired.*firewall: Device or resource busy/,
  })
  t.match(await ctl('service status'), {
    out: /trouble: the kernel does not hold what is stored: Device or resource busy/,
  })
})
