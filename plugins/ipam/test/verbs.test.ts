/** The commands of IPAM against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { buildArea, scratch } from '../../../test/build.ts'
import { verbs } from '../verbs.ts'

t.test('ipam', async (t) => {
  const { agent } = await buildArea(t, 'ipam')
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  const json = async (line: string) => JSON.parse((await ctl(`${line} --json`)).out)
  t.match(await ctl('ipam pools list'), { code: 0, out: 'no pools\n' })
  t.match(await ctl('ipam pools create office 10.7.0.0/24 --gateway 10.7.0.1 --range-end 10.7.0.9 --tenant-id acme'), {
    out: 'pool 1 created: 10.7.0.1 to 10.7.0.9\n',
  })
  t.match(await json('ipam pools create six fd00::/64 --range-start fd00::7'), {
    pool: { id: 2, range_start: 'fd00::7' },
  })
  t.match(await ctl('ipam pools list --tenant-id acme'), {
    out: /^ID .*\n1 +office +10\.7\.0\.0\/24 +10\.7\.0\.1 +10\.7\.0\.1 to 10\.7\.0\.9 +acme\n$/,
  })
  t.match(await ctl('ipam allocate 1 --hostname printer.lab'), { code: 0, out: '10.7.0.2\n' })
  t.match(await json('ipam allocate 2'), { status: 'allocated', ip: 'fd00::7' })
  t.match(await ctl('ipam allocations'), { out: /\n1 +1 +10\.7\.0\.2 +printer\.lab\n2 +2 +fd00::7 +-\n$/ })
  t.match(await ctl('ipam allocations --tenant-id nobody'), { code: 0, out: 'no allocations\n' })
  t.match(await ctl('ipam release 1 10.7.0.2'), { code: 0, out: '10.7.0.2 released\n' })
  t.match(await ctl('ipam release 1 10.7.0.2'), { code: 1, err: /has no allocation/ })
  t.match(await ctl('ipam allocate x'), { code: 1, err: /pool_id: must be a whole number/ })
  t.match(await ctl('ipam pools delete 1'), { code: 0, out: 'pool 1 deleted\n' })
  t.match(await ctl('ipam pools delete 1'), { code: 1, err: /pool 1 not found/ })
  t.match(await ctl('ipam pools create x'), { code: 2 })
})
