/** What the installer decides by profile and STRATUM_API_TOKEN, tried on a machine as an operator would. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../build.ts'
import { requireRoot } from '../netns.ts'
import { builtPackage } from './built.ts'
import { machine } from './machine.ts'

requireRoot(t)
const file = builtPackage(t)
const INSTALLER = join(import.meta.dirname, '..', '..', '..', 'scripts', 'install')
const OWN = 'a-token-of-our-own_0123456789-abcdefghij'
const TOKEN = /^nt_[\w-]{43}$/

const node = await machine(t)
await node.ok('dpkg', '--install', file)

/** The shipped installer with a variable of the environment; none: unset. */
const install = (profile: string, wanted?: string) =>
  node.run('env', ...(wanted === undefined ? [] : [`STRATUM_API_TOKEN=${wanted}`]), 'stratum-install', profile)

/** What it has decided; nothing where the node has no state. */
const decided = async (): Promise<{ rest?: boolean; tokenHash?: string }> =>
  JSON.parse(await node.ok('sh', '-c', 'cat /var/lib/stratum/overrides.json 2>/dev/null || echo {}'))

const forget = () => node.ok('rm', '-rf', '/var/lib/stratum')

/** Status of a call with this token; 0 when nobody listens. */
async function status(token: string): Promise<number> {
  const args = ['-s', '-k', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Authorization: Bearer ${token}`]
  return Number((await node.run('curl', ...args, 'https://127.0.0.1:7070/api/v1/status')).out)
}

t.test('what cannot be meant changes nothing', async (t) => {
  const secret = 'short-secret'
  for (const [profile, wanted] of [
    ['compute', secret],
    ['compute', `${'x'.repeat(40)} y`],
    ['suite', 'Auto'],
  ] as const) {
    const refused = await install(profile, wanted)
    t.match(refused, { status: 1, out: '', err: /STRATUM_API_TOKEN/ })
    t.notOk(refused.err.includes(secret))
  }
  t.match(await install('storage'), { status: 2, err: /there is no profile storage/ })
  t.match(await node.run('stratum-install'), { status: 2, err: /which profile/ })
  t.equal(await node.ok('sh', '-c', 'ls /var/lib/stratum 2>/dev/null || true'), '')
})

t.test('without a service manager it decides and starts nothing', async (t) => {
  await node.ok('mv', '/run/systemd', '/run/no-systemd')
  t.teardown(() => node.ok('mv', '/run/no-systemd', '/run/systemd'))

  t.test('enable-20 enable-22 compute and suite turn the API on and show a token once', async (t) => {
    const first = await install('compute')
    t.match(first, { status: 0, out: new RegExp(`${TOKEN.source.slice(0, -1)}\\n$`), err: /no systemd here/ })
    const made = await decided()
    t.match(made, { rest: true, tokenHash: /./ })
    t.equal(await node.ok('stat', '-c', '%a %U', '/var/lib/stratum/overrides.json'), '600 root')
    const again = await install('suite', 'auto')
    t.match(
      again,
      { status: 0, out: '', err: /Its token is the one that was set before/ },
      'a second run shows no token',
    )
    t.notOk(again.err.includes(first.out.trim()))
    t.same(await decided(), made, 'and keeps the one that is there')
    t.match(await install('suite', 'off'), { status: 0, out: '', err: /the API is off/ })
    t.match(await decided(), { rest: false, tokenHash: made.tokenHash ?? '' })
    t.match(await install('suite'), { status: 0, out: '' })
    t.same(await decided(), made, 'the token outlives a time without the API')
    await forget()
  })

  t.test('enable-21 enable-23 fabric, and off on any profile, leave the API off unless asked', async (t) => {
    t.match(await install('fabric'), { status: 0, out: '', err: /the API is as it was/ })
    t.same(await decided(), {})
    t.match(await install('compute', 'off'), { status: 0, out: '', err: /the API is off/ })
    t.not((await decided()).rest, true)
    const asked = await install('fabric', OWN)
    t.match(asked, { status: 0, out: '', err: /Its token is the one you gave/ })
    t.notOk(asked.err.includes(OWN), 'what was given is not printed')
    t.notOk((await node.ok('cat', '/var/lib/stratum/overrides.json')).includes(OWN), 'nor stored')
    const kept = await decided()
    t.match(kept, { rest: true, tokenHash: /./ })
    t.match(await install('fabric'), { status: 0, out: '' })
    t.same(await decided(), kept, 'fabric does not close what was opened')
    await forget()
  })

  t.test('enable-22 from elsewhere into a directory: unpacked, decided', async (t) => {
    const root = scratch(t, 'destination')
    // The directory of the outer machine is that of the inner one, below its overlay.
    await node.ok('mkdir', '-p', root, '/tools')
    const script = readFileSync(INSTALLER, 'utf8')
    await node.ok('sh', '-c', 'printf %s "$1" >/tools/install', 'write', script)
    const done = await node.run('env', `DESTDIR=${root}`, 'sh', '/tools/install', 'compute', '--package', file)
    t.equal(done.status, 0, done.err)
    t.match(done.out.trim(), TOKEN)
    t.match(done.err, /nothing was started/)
    t.equal(await node.ok('stat', '-c', '%a', `${root}/var/lib/stratum/overrides.json`), '600')
  })

  t.test('and no process was left', async (t) => t.same([...(await node.processes()).values()], []))
})

t.test('enable-20 enable-21 what it has decided is what the agent does', async (t) => {
  const on = await install('compute')
  t.equal(on.status, 0, on.err)
  const token = on.out.trim()
  t.equal(await status(token), 200)
  t.match(await node.ok('cat', '/run/systemctl.log'), /-q enable stratumd\.service/)
  t.match(await install('compute', 'off'), { status: 0, out: '' })
  t.equal(await status(token), 0)
  t.match(await node.ok('stratumctl', 'service', 'status'), /^rest: off/m)
})
