/** The commands of tenants against the real routes. */
import { join } from 'node:path'
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { verbs } from '../verbs.ts'
import { tenantsArea } from './area.ts'

async function node(t: Scope) {
  const built = await tenantsArea(t)
  const { app } = built.agent
  const listener = await listenControl(app.routing.bind(app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const ctl = ctlFor(verbs, listener.where)
  return { ...built, ctl, json: async (line: string) => JSON.parse((await ctl(`${line} --json`)).out) }
}

t.test('tenants', async (t) => {
  const { ctl, json } = await node(t)
  t.match(await ctl('tenants list'), { code: 0, out: 'no tenants\n' })
  const { tenant } = await json('tenants add acme')
  t.match(await ctl('tenants add acme'), { code: 1, err: /tenant acme already exists/ })
  t.match(await ctl('tenants add other'), { code: 0, out: /^tenant other added: ten-[0-9a-f]{12}\n$/ })
  t.match(await ctl('tenants list'), { out: new RegExp(`^ID .*\\n${tenant.id}  acme   active  2030.*\\nten-`) })
  t.match(await ctl(`tenants show ${tenant.id}`), { code: 0, out: /name +acme\nstatus +active\n/ })
  t.match(await ctl(`tenants set ${tenant.id} --status suspended --name acme2`), {
    out: /name +acme2\nstatus +suspended\n/,
  })
  t.match(await ctl(`tenants set ${tenant.id}`), { code: 1, err: /name or status is required/ })
  t.match(await ctl(`tenants set ${tenant.id} --status deleted`), { code: 2, err: /tenants delete/ })
  t.match(await ctl(`tenants set ${tenant.id} --status frozen`), { code: 1, err: /status/ })
  t.match(await ctl(`tenants delete ${tenant.id}`), { code: 0, out: `tenant ${tenant.id} deleted\n` })
  t.match(await ctl(`tenants show ${tenant.id}`), { code: 1, err: /not found/ })
})

t.test('quotas', async (t) => {
  const { ctl, json } = await node(t)
  const { tenant } = await json('tenants add acme')
  t.match(await ctl(`tenants quota ${tenant.id}`), { code: 0, out: /^RESOURCE .*\nnetworks +0 +unlimited\n/ })
  t.match(await ctl(`tenants quota ${tenant.id} networks=5,keys=-1`), {
    out: /\nnetworks +0 +5\n(?:.*\n)*keys +0 +unlimited\n/,
  })
  t.match(await ctl(`tenants quota ${tenant.id} networks=many`), { code: 2, err: /not RESOURCE=N: networks=many/ })
  t.match(await ctl(`tenants quota ${tenant.id} volumes=1`), { code: 1, err: /unrecognised key: volumes/ })
})

t.test('tenant-08 keys: printed once, on standard output alone', async (t) => {
  const { ctl, json, as } = await node(t)
  const { tenant } = await json('tenants add acme')
  t.match(await ctl(`tenants keys list ${tenant.id}`), { code: 0, out: 'no keys\n' })
  const { code, out, err } = await ctl(`tenants keys mint ${tenant.id} portal --expires 2031-01-01T00:00:00Z`)
  t.equal(code, 0)
  t.match(out, /^tk_key-[0-9a-f]{12}_[A-Za-z0-9_-]{43}\n$/)
  t.match(err, /cannot be shown again/)
  t.equal((await as(out.trim(), 'GET', `/tenant/${tenant.id}`)).status, 200)
  const list = await ctl(`tenants keys list ${tenant.id}`)
  t.match(list.out, /portal +2030-01-01T00:00:00.000Z +- +2031-01-01/)
  t.notOk(list.out.includes(out.trim().slice(-43)))
  const id = /key-[0-9a-f]{12}/.exec(out)?.[0] ?? ''
  t.match(await ctl(`tenants keys revoke ${tenant.id} ${id}`), { code: 0, out: `key ${id} revoked\n` })
  t.match(await ctl(`tenants keys revoke ${tenant.id} ${id}`), { code: 1, err: /not found/ })
  t.match(await ctl(`tenants keys mint ${tenant.id}`), { code: 2 })
})
