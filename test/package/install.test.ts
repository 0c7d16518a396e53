/** What the installer decides by profile and STRATUM_API_TOKEN, tried on machines as an operator would. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../build.ts'
import { requireRoot } from '../netns.ts'
import { builtPackage } from './built.ts'
import { type Machine, machine } from './machine.ts'

requireRoot(t)
const file = builtPackage(t)
const INSTALLER = join(import.meta.dirname, '..', '..', '..', 'scripts', 'install')

/** The shipped installer with a variable of the environment; none: unset. */
const install = ({ run }: Machine, profile: string, wanted?: string) =>
  run('env', ...(wanted === undefined ? [] : [`STRATUM_API_TOKEN=${wanted}`]), 'stratum-install', profile)

/** Status of a call with this token; 0 when nobody listens. */
async function status({ run }: Machine, token: string): Promise<number> {
  const args = ['-s', '-k', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Authorization: Bearer ${token}`]
  return Number((await run('curl', ...args, 'https://127.0.0.1:7070/api/v1/status')).out)
}

const overrides = async ({ ok }: Machine): Promise<{ rest: boolean; tokenHash?: string }> =>
  JSON.parse(await ok('cat', '/var/lib/stratum/overrides.json'))

t.test('enable-20 enable-22 compute and suite turn the API on and show a token once', async (t) => {
  const node = await machine(t)
  await node.ok('dpkg', '--install', file)
  const first = await install(node, 'compute')
  t.equal(first.status, 0, first.err)
  const token = first.out.trim()
  t.match(token, /^nt_[\w-]{43}$/)
  t.equal(await status(node, token), 200)
  t.equal(await node.ok('stat', '-c', '%a %U', '/var/lib/stratum/overrides.json'), '600 root')
  t.match(await node.ok('cat', '/run/systemctl.log'), /-q enable stratumd\.service/)

  const again = await install(node, 'suite', 'auto')
  t.match(again, { status: 0, out: '', err: /Its token is the one that was set before/ }, 'a second run shows no token')
  t.notOk(again.err.includes(token))
  t.equal(await status(node, token), 200, 'and keeps the one that is there')

  const off = await install(node, 'suite', 'off')
  t.match(off, { status: 0, out: '', err: /the API is off/ })
  t.equal(await status(node, token), 0)
  const back = await install(node, 'suite')
  t.match(back, { status: 0, out: '' })
  t.equal(await status(node, token), 200, 'the token outlives a time without the API')
})

t.test('enable-21 enable-23 fabric, and off on any profile, leave the API off unless asked', async (t) => {
  const node = await machine(t)
  await node.ok('dpkg', '--install', file)
  t.match(await install(node, 'fabric'), { status: 0, out: '', err: /the API is as it was/ })
  t.equal(await status(node, 'x'.repeat(40)), 0)
  t.match(await install(node, 'compute', 'off'), { status: 0, out: '', err: /the API is off/ })
  t.equal(await status(node, 'x'.repeat(40)), 0)
  t.match(await node.ok('stratumctl', 'service', 'status'), /^rest: off: no token$/m)

  const own = 'a-token-of-our-own_0123456789-abcdefghij'
  const asked = await install(node, 'fabric', own)
  t.match(asked, { status: 0, out: '', err: /Its token is the one you gave/ })
  t.notOk(asked.err.includes(own), 'what was given is not printed')
  t.equal(await status(node, own), 200)
  t.notOk((await node.ok('cat', '/var/lib/stratum/overrides.json')).includes(own), 'nor stored')

  const kept = await overrides(node)
  t.match(await install(node, 'fabric'), { status: 0, out: '' })
  t.same(await overrides(node), kept, 'fabric does not close what was opened')
})

t.test('what cannot be meant changes nothing', async (t) => {
  const node = await machine(t)
  t.match(await node.run('sh', '-c', 'command -v stratumd'), { status: 127 })
  await node.ok('dpkg', '--install', file)
  const secret = 'short-secret'
  for (const [profile, wanted] of [
    ['compute', secret],
    ['compute', `${'x'.repeat(40)} y`],
    ['suite', 'Auto'],
  ] as const) {
    const refused = await install(node, profile, wanted)
    t.match(refused, { status: 1, out: '', err: /STRATUM_API_TOKEN/ })
    t.notOk(refused.err.includes(secret))
  }
  t.match(await install(node, 'storage'), { status: 2, err: /there is no profile storage/ })
  t.match(await node.run('stratum-install'), { status: 2, err: /which profile/ })
  t.equal(await node.ok('sh', '-c', 'ls /var/lib/stratum 2>/dev/null || true'), '')
})

t.test('enable-22 from elsewhere into a directory: unpacked, decided, nothing started', async (t) => {
  const root = scratch(t, 'destination')
  const node = await machine(t)
  // The directory of the outer machine is that of the inner one, below its overlay.
  await node.ok('mkdir', '-p', root, '/tools')
  const script = readFileSync(INSTALLER, 'utf8')
  await node.ok('sh', '-c', 'printf %s "$1" >/tools/install', 'write', script)
  const done = await node.run('env', `DESTDIR=${root}`, 'sh', '/tools/install', 'compute', '--package', file)
  t.equal(done.status, 0, done.err)
  t.match(done.out.trim(), /^nt_[\w-]{43}$/)
  t.match(done.err, /nothing was started/)
  t.equal(await node.ok('stat', '-c', '%a', `${root}/var/lib/stratum/overrides.json`), '600')
  t.same([...(await node.processes()).values()], [])
})
