/** Tokens and keys: when they count, and what becomes of them once printed or read. The real agent and the real CLI. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { node } from './node.ts'

requireRoot(t)

const CLOSED = Array(3).fill('ECONNREFUSED')

t.test('a token from one start to the next', async (t) => {
  const { ok, ctl, knock, status, agent } = await node(t, { fresh: true })
  const first = await ok('api-token generate')

  await t.test('enable-07 a newly set token counts from the next start', async (t) => {
    await ok('service rest on')
    t.same(await knock('127.0.0.1'), CLOSED)
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
    t.same(await knock('127.0.0.1'), CLOSED)
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
