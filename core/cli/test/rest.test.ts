/** Commands that the API document yields, and `api` for everything. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { buildAgent, scratch } from '../../../test/build.ts'
import { servedDocuments } from '../../../test/documents.ts'
import type { Scope } from '../../../test/netns.ts'
import { listenControl } from '../../transport/listener.ts'
import { type OpenApi, operationsOf, readOpenApi } from '../openapi.ts'
import { restVerbs } from '../rest.ts'
import { shown } from '../shown.ts'
import { allVerbs } from '../table.ts'
import { ctlFor, fakeControl } from './control.ts'

async function node(t: Scope) {
  const socket = join(scratch(t, 'ctl'), 'control.sock')
  const built = await buildAgent(t)
  const control = await listenControl(built.agent.app.routing.bind(built.agent.app), socket)
  t.teardown(() => control.close(0))
  return { ...built, ctl: ctlFor(await allVerbs(), socket) }
}

t.test('the document of the build is the one that an agent serves', async (t) => {
  const { call } = await buildAgent(t)
  const { openapi } = await servedDocuments(call)
  t.same(readOpenApi(), JSON.parse(JSON.stringify(openapi)))
})

t.test('every call of REST is a command', async (t) => {
  const operations = operationsOf(readOpenApi() as OpenApi)
  t.ok(operations.length > 120, `${operations.length} operations`)
  const made = restVerbs(operations, new Set(['tenants']))
  const { socket, asked } = await fakeControl(t, 200, {})
  const ctl = ctlFor(made, socket)
  const reached = new Set<string>()
  for (const verb of made) {
    const words = (verb.arguments ?? []).map(({ name }) => `${name}~`)
    const { code, err } = await ctl([...verb.path.split(' '), ...words])
    t.equal(code, 0, `${verb.path}: ${err}`)
    const [method = '', url = ''] = asked.at(-1)?.split(' ') ?? []
    reached.add(`${method} ${url.replaceAll(/\/([a-z]+)~/g, '/{$1}')}`)
    for (const { flags } of verb.options ?? []) t.notMatch(flags, /^--(json|help|version) |secret|password|md5/)
  }
  const missed = operations.map(({ method, path }) => `${method} ${path}`).filter((one) => !reached.has(one))
  // A range has an id as well, by which `routed-addresses delete` names it.
  t.same(missed, ['DELETE /api/v1/routed-addresses'])
})

t.test('verbs that areas wrote stay, and the rest of their nouns is added', async (t) => {
  const verbs = await allVerbs()
  const of = (path: string) => verbs.filter((verb) => verb.path === path)
  t.equal(of('rules list').length, 1)
  t.match(of('rules list')[0]?.options, [{ flags: '--counters' }], 'the written one')
  for (const path of ['rules set', 'networks add', 'tenants networks list', 'bgp neighbors add', 'lb backends add']) {
    t.equal(of(path).length, 1, path)
  }
  t.notOk(verbs.some(({ path }) => path.startsWith('tenant ')))
})

t.test('fields are options of their type, JSON comes from --body, and options win over it', async (t) => {
  const { socket, asked } = await fakeControl(t, 200, { status: 'created', rule: { id: 7, comment: 'a\u001b[31m' } })
  const ctl = ctlFor(restVerbs(operationsOf(readOpenApi() as OpenApi)), socket)
  const added = await ctl('rules add --action drop --dest-port 23 --stateful true')
  t.same(asked, ['POST /api/v1/rules {"action":"drop","dest_port":23,"stateful":true}'])
  t.same(added, { code: 0, out: 'status  created\n\nRULE\nid       7\ncomment  a?[31m\n', err: '' })
  const file = join(scratch(t, 'body'), 'body.json')
  writeFileSync(file, '{"action":"drop","priority":5}')
  await ctl(['rules', 'set', '12', '--body', file, '--action', 'accept'])
  t.equal(asked.at(-1), 'PUT /api/v1/rules/12 {"action":"accept","priority":5}')
  await ctl('bgp announce --prefix 192.0.2.0/24 --communities 65000:1,65000:2')
  t.equal(asked.at(-1), 'POST /api/v1/bgp/announce {"prefix":"192.0.2.0/24","communities":["65000:1","65000:2"]}')
  await ctl('bgp neighbors add --peer-as 65001 --body -', '{"md5_key":"k"}')
  t.equal(asked.at(-1), 'POST /api/v1/bgp/neighbors {"md5_key":"k","peer_as":65001}')
  await ctl(['networks', 'endpoints', 'list', 'a/b', '--mac', '02:00:00:00:00:01'])
  t.equal(asked.at(-1), 'GET /api/v1/networks/a%2Fb/endpoints?mac=02%3A00%3A00%3A00%3A00%3A01')
  const before = asked.length
  t.match(await ctl('rules add --body -', '[]'), { code: 2, err: /must be one JSON object/ })
  t.match(await ctl('rules add --body -', '{'), { code: 2, err: /no JSON/ })
  t.match(await ctl('rules add --body /nowhere'), { code: 2, err: /cannot be read/ })
  t.match(await ctl('rules add --dest-port http'), { code: 2, err: /whole number/ })
  t.equal(asked.length, before)
})

t.test('err-09 an error of an area that is off tells why it is', async (t) => {
  const { ctl, agent } = await node(t)
  agent.states.turnOff('firewall', 'the kernel has no nft')
  const [error, reason] = ['firewall service not available', 'the kernel has no nft']
  for (const line of ['api GET /rules', 'rules show 1'])
    t.match(await ctl(line), { code: 1, out: '', err: `stratumctl: ${error}: ${reason}\n` })
  for (const line of ['api GET /rules --json', 'rules show 1 --json']) {
    const { code, err } = await ctl(line)
    t.same([code, JSON.parse(err)], [1, { error, reason }])
  }
})

t.test('api makes any call, as actor cli, with the errors of the API', async (t) => {
  const { ctl, agent } = await node(t)
  const added = await ctl(['api', 'post', '/rules', '--body', '-', '--json'], '{"action":"drop","comment":"x"}')
  t.match([added.code, JSON.parse(added.out)], [0, { status: 'created', rule: { id: 1 } }])
  t.match(agent.outbox.after(0, 100).at(-1), { type: 'rule.created', actor: { kind: 'cli' } })
  t.match(await ctl('api GET /rules'), { code: 0, out: /^ID +CHAIN.*\n1 .* drop .*x\n$/ })
  t.equal((await ctl('api GET /api/v1/rules?chain=postrouting')).out, 'no rules\n')
  t.match(await ctl('api GET /rules/9 --json'), { code: 1, out: '', err: '{"error":"rule 9 not found"}\n' })
  t.match(await ctl('api GET /control/v1/config/uplink'), { code: 0, out: /^key +uplink/ })
  t.match(await ctl('api GET /metrics'), { code: 0, out: /^# HELP stratum_/ })
  const shownOne = await ctl('api GET /rules/1 --include')
  const [, tag = ''] = /^etag: (.*)$/m.exec(shownOne.out) ?? []
  t.match(shownOne, { code: 0, out: /^HTTP 200\n/ })
  t.match(await ctl(['api', 'DELETE', '/rules/1', '--header', 'If-Match: "other"']), { code: 1, err: /stratumctl: / })
  t.match(await ctl(['api', 'DELETE', '/rules/1', '--header', `If-Match: ${tag}`]), { code: 0, out: /deleted/ })
  t.match(await ctl('api GET /no/such'), { code: 1, err: 'stratumctl: no such path\n' })
  t.match(await ctl('api GET rules'), { code: 2, err: /must begin with \// })
  t.match(await ctl(['api', 'GET', '/rules', '--header', 'x']), { code: 2, err: /no header/ })
  t.match(await ctl(['api', 'GET', '/rules', '--header', 'a: b\r\nc: d']), { code: 2, err: /no header/ })
  t.match(await ctl(['api', 'G T', '/rules']), { code: 2, err: /no method/ })
})

t.test('answers for people', async (t) => {
  t.equal(shown({ rules: [], count: 0 }), 'count  0\n\nno rules')
  t.equal(
    shown({ network: { id: 'n', host_gateway: { enabled: true }, tags: ['a', 'b'] } }),
    ['id            n', 'host gateway  {"enabled":true}', 'tags          a b'].join('\n'),
  )
  t.equal(shown({ a_b: [{ id: 1 }, { id: 2, x: null, why: 'y\nz' }] }), 'ID  X  WHY\n1   -  -\n2   -  y?z')
  t.equal(shown('PEM\nline\u0007\n'), 'PEM\nline?')
  t.equal(shown([]), 'no entries')
})

t.test('every stratumctl line of the README is a command with the options that it has', async (t) => {
  const silent = (await allVerbs()).map((verb) => ({ ...verb, run: async () => {} }))
  const ctl = ctlFor(silent, '/nowhere')
  const readme = readFileSync(join(import.meta.dirname, '../../../../README.md'), 'utf8')
  const blocks = Array.from(readme.matchAll(/```sh\n([\s\S]*?)```/g), ([, block = '']) => block.split('\n')).flat()
  const lines = blocks.filter((line) => line.startsWith('stratumctl '))
  t.ok(lines.length > 20)
  for (const line of lines) {
    const words = line.replace(/ +#.*| +> .*/g, '').match(/'[^']*'|\S+/g) ?? []
    const plain = words.slice(1).map((word) => word.replace(/^'(.*)'$/, '$1'))
    t.same(await ctl(plain), { code: 0, out: '', err: '' }, line)
  }
})
