/** What enables the API and what does not: the real agent, the real CLI, real connections. */
import { execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { overSocket } from '../../../test/agent.ts'
import { requireRoot } from '../../../test/netns.ts'
import { node } from './node.ts'

requireRoot(t)

const HERE = ['127.0.0.1', '::1']
const REFUSED = Array(6).fill('ECONNREFUSED')

t.test('enable-01 enable-24 without a token nothing listens, and the control socket answers', async (t) => {
  const { ok, knock, agent } = await node(t, { fresh: true })
  t.same(await knock(...HERE), REFUSED)
  t.match(await ok('service status'), /^rest: off: no token$/m)
  t.match(await ok('status'), /^status +running$/m)
  t.equal((await overSocket(agent.socket)('GET', '/api/v1/status')).status, 200)
})

t.test('enable-02 token and certificate, but REST switched off: nothing listens', async (t) => {
  const { ok, knock, agent } = await node(t)
  await ok('service rest off')
  await agent.restart()
  t.match(await ok('service status'), /^rest: off: switched off$/m)
  t.same(await knock(...HERE), REFUSED)
})

t.test('enable-03 enable-04 enable-05 no certificate, no listener; with one, TLS and nothing else', async (t) => {
  const config = { tls_cert: '/nonexistent/cert.pem', tls_key: '/nonexistent/key.pem' }
  const { ok, knock, status, plaintext, agent } = await node(t, { config })
  t.match(await ok('service status'), /^rest: off: no certificate: .*\/nonexistent/m)
  t.same(await knock(...HERE), REFUSED)

  await ok('config unset tls_cert')
  await ok('config unset tls_key')
  await agent.restart()
  t.equal(await status(agent.token), 200)
  t.equal((await knock(...HERE))[0], 'open')
  t.notMatch(await plaintext(7070), /HTTP\/[0-9.]+ [23]/)
})

t.test('a token from one start to the next', async (t) => {
  const { ok, ctl, knock, status, agent } = await node(t, { fresh: true })
  const first = await ok('api-token generate')

  await t.test('enable-07 a newly set token counts from the next start', async (t) => {
    await ok('service rest on')
    t.same(await knock(...HERE), REFUSED)
    t.match(await ok('service status'), /^rest: off: the token takes effect at the next start/m)
    await agent.restart()
    t.equal(await status(first), 200)
  })

  const second = 'a-token-of-my-own-0123456789-abcdefghijklm'
  await t.test('enable-10 a token is read from standard input, never from an argument', async (t) => {
    const refused = await ctl(`api-token set ${second}`)
    t.match(refused, { code: 2, out: '', err: /too many arguments/ })
    t.notOk(refused.err.includes(second))
    await agent.restart()
    t.same([await status(first), await status(second)], [200, 401], 'the argument was not taken')
    t.match(await ok('api-token set', `${second}\n`), /next start/)
  })

  await t.test(
    'enable-07 enable-08 a changed token: the old one until the restart, the new one after it',
    async (t) => {
      t.same([await status(first), await status(second)], [200, 401])
      await agent.restart()
      t.same([await status(first), await status(second)], [401, 200])
    },
  )

  await t.test('enable-12 a cleared token works until the restart, and then nothing listens', async (t) => {
    await ok('api-token clear')
    t.equal(await status(second), 200)
    t.match(await ok('api-token status'), /no API token is set/)
    await agent.restart()
    t.same(await knock(...HERE), REFUSED)
  })
})

t.test('what is kept of a token', async (t) => {
  const { ok, ctl, overrides, agent } = await node(t, { fresh: true })
  t.equal(await ok('api-token status'), 'no API token is set')
  const made = await ctl('api-token generate')
  const token = made.out.trim()

  await t.test('enable-09 enable-11 generate prints the token once, and nothing ever prints it again', async (t) => {
    t.match(token, /^nt_[A-Za-z0-9_-]{43}$/)
    t.equal((made.out + made.err).split(token).length, 2)
    t.equal(await ok('api-token status'), 'an API token is set')
    for (const line of [
      'api-token status',
      'config list',
      'service status',
      'status',
      'apikeys list',
      'license status',
    ]) {
      for (const form of [line, `${line} --json`]) {
        const { code, out, err } = await ctl(form)
        t.same([code, (out + err).includes(token)], [0, false], form)
      }
    }
    t.not(await ok('api-token generate'), token, 'generate makes another one')
    t.notOk(JSON.stringify(agent.logged).includes(token), 'nor does the log')
  })

  await t.test('enable-18 its hash is in the local overrides, which are root only', async (t) => {
    const stored = statSync(overrides.path)
    t.same([stored.mode & 0o7777, stored.uid], [0o600, 0])
    t.match(overrides.read(), /"tokenHash": "[0-9a-f]{64}"/)
    t.notOk(overrides.read().includes(token))
  })

  await t.test('enable-17 config set refuses credentials', async (t) => {
    const before = overrides.read()
    for (const key of ['api_token', 'token', 'tls_key_password', 'api_secret', 'md5_key']) {
      t.match(await ctl(`config set ${key} x`), { code: 1, out: '', err: /is a credential/ }, key)
    }
    t.equal(overrides.read(), before)
  })
})

t.test('enable-13 the secret of an operator key is shown once and cannot be recovered', async (t) => {
  const { ok, ctl, status, agent } = await node(t)
  const key = await ok('apikeys mint backup-job')
  const [, id = '', secret = ''] = /^ok_([0-9a-f]+)_(.+)$/.exec(key) ?? []
  t.ok(secret.length >= 32)
  t.equal(await status(key), 200)
  const list = await ok('apikeys list --json')
  t.same(JSON.parse(list).keys[0], { id, label: 'backup-job', created_at: JSON.parse(list).keys[0].created_at })
  const forms = [secret, Buffer.from(secret, 'base64url').toString('hex'), Buffer.from(secret).toString('base64url')]
  const files = readdirSync(agent.stateDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  for (const file of files) {
    const content = readFileSync(join(file.parentPath, file.name), 'latin1')
    t.same(
      forms.filter((form) => content.includes(form)),
      [],
      file.name,
    )
    t.notOk(content.includes(Buffer.from(secret, 'base64url').toString('latin1')), file.name)
  }
  t.notOk(JSON.stringify(agent.logged).includes(secret))
  await ok(`apikeys revoke ${id}`)
  t.equal(await status(key), 401)
  t.equal((await ctl(`apikeys revoke ${id}`)).code, 1)
})

t.test('enable-14 enable-15 the switch opens and closes the listeners, and service status tells each', async (t) => {
  const { ok, knock, status, agent } = await node(t)
  const three = async () => (await ok('service status')).split('\n').slice(0, 3)
  t.equal(await status(agent.token), 200)
  t.match(await three(), [/^rest: listening .+:7070$/, /^grpc: listening .+:7071$/, /^events: listening .+:7072$/])
  await ok('service rest off')
  t.same(await knock(...HERE), REFUSED)
  t.same(await three(), ['rest: off: switched off', 'grpc: off: switched off', 'events: off: switched off'])
  await ok('service rest on')
  t.equal(await status(agent.token), 200)
})

t.test('enable-16 api_bind_address binds to that address only', async (t) => {
  const { ns, ok, knock, status, agent } = await node(t)
  ns.run('ip', 'address', 'add', '10.77.0.1/32', 'dev', 'lo')
  t.match(await ok('config set api_bind_address 10.77.0.1'), /effective at restart/)
  await agent.restart()
  t.equal(await status(agent.token, '10.77.0.1'), 200)
  t.same(await knock(...HERE), REFUSED)
  t.match(await ok('service status'), /^rest: listening 10\.77\.0\.1:7070$/m)
})

t.test('enable-25 nothing that can be configured switches the control socket off', async (t) => {
  const { ctl, ok, agent } = await node(t)
  const control = overSocket(agent.socket)
  await ok('service rest off')
  for (const line of ['service control off', 'service control.sock off', 'service all off']) {
    t.equal((await ctl(line)).code, 2, line)
  }
  const { config }: { config: { key: string }[] } = JSON.parse(await ok('config list --json'))
  t.ok(config.length > 10)
  const areas = (await control('GET', '/control/v1/services')).body.areas as { name: string }[]
  const values = ['', 'off', '0', '1', '192.0.2.1', '/nonexistent', 'error', areas.map(({ name }) => name).join(',')]
  for (const { key } of config) {
    const answers = []
    for (const value of values) answers.push(await control('PUT', `/control/v1/config/${key}`, { value }))
    t.ok(
      answers.some(({ status }) => status === 200),
      `${key} took a value`,
    )
    t.equal((await control('GET', '/control/v1/services')).status, 200)
  }
  await agent.restart()
  t.equal((await ctl('service status')).code, 0)
  await ok('config unset disabled_areas')
})

t.test('enable-26 the control socket is for root only, and says so', async (t) => {
  const { agent } = await node(t, { fresh: true })
  const { mode, uid } = statSync(agent.socket)
  t.same([mode & 0o7777, uid], [0o600, 0])
  // The directory is not what keeps others out.
  chmodSync(agent.runDir, 0o755)
  const script = `require('node:net').connect(process.argv[1]).on('connect', () => console.log('open')).on('error', ({ code }) => console.log(code))`
  const connect = (ids: object) =>
    execFileSync(process.execPath, ['-e', script, agent.socket], { encoding: 'utf8', cwd: '/', ...ids }).trim()
  t.equal(connect({}), 'open')
  t.equal(connect({ uid: 65534, gid: 65534 }), 'EACCES')
})
