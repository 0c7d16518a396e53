/** Every verb of this build against the real routes of an agent whose kernel is a fake. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { type BuildAgentOptions, buildAgent, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { listenControl } from '../../transport/listener.ts'
import { allVerbs } from '../table.ts'
import { ctlFor } from './control.ts'

async function node(t: Scope, options: BuildAgentOptions = {}) {
  const socket = join(scratch(t, 'ctl'), 'control.sock')
  const built = await buildAgent(t, options)
  const control = await listenControl(built.agent.app.routing.bind(built.agent.app), socket)
  t.teardown(() => control.close(0))
  const ctl = ctlFor(await allVerbs(), socket)
  return { ...built, ctl, json: async (line: string) => JSON.parse((await ctl(`${line} --json`)).out) }
}

t.test('api-token', async (t) => {
  const { ctl, json, stateDir } = await node(t)
  t.match(await ctl('api-token status'), { code: 0, out: 'an API token is set\n' })
  const made = await ctl('api-token generate')
  t.match(made, { code: 0, out: /^nt_[\w-]{43}\n$/, err: /not shown again.*takes effect at the next start/ })
  t.match(await json('api-token generate'), { status: 'created', token: /^nt_/, note: /next start/ })

  t.match(await ctl('api-token clear'), { code: 0, out: /removed: this takes effect at the next start/ })
  t.same(await json('api-token status'), { set: false })
  t.match(await ctl('api-token set', ' '), { code: 2, err: /standard input holds no token/ })
  t.match(await ctl('api-token set', 'short'), { code: 1, err: /token: must be 32 to 256 characters/ })
  const secret = 'abcdefghijklmnopqrstuvwxyz0123456789'
  const refused = await ctl(['api-token', 'set', secret])
  t.match(refused, { code: 2, err: /too many arguments/ })
  t.notOk(refused.err.includes(secret))
  t.same(await json('api-token status'), { set: false })
  t.match(await ctl('api-token set', `${secret}\n`), { code: 0, out: /stored: it takes effect at the next start/ })
  t.same(await json('api-token status'), { set: true })
  t.notOk(readFileSync(join(stateDir, 'overrides.json'), 'utf8').includes(secret))
})

t.test('apikeys', async (t) => {
  const { ctl, json, call } = await node(t)
  t.match(await ctl('apikeys list'), { code: 0, out: 'no operator keys\n' })
  const minted = await ctl('apikeys mint backup-job')
  t.match(minted, { code: 0, out: /^ok_[0-9a-f]{12}_[\w-]{43}\n$/, err: /not shown again/ })
  const key = minted.out.trim()
  const [, id = '', ...rest] = key.split('_')
  const secret = rest.join('_')
  t.match(await ctl('apikeys list'), { out: new RegExp(`^ID +CREATED +LABEL\n${id} .*Z  backup-job\n$`) })
  t.notOk(JSON.stringify(await json('apikeys list')).includes(secret))
  const status = (authorization: string) => call('GET', '/api/v1/status', undefined, { authorization })
  t.equal((await status(`Bearer ${key}`)).status, 200)
  t.match(await ctl(`apikeys revoke ${id}`), { code: 0, out: `operator key ${id} revoked\n` })
  t.equal((await status(`Bearer ${key}`)).status, 401)
  t.match(await ctl(`apikeys revoke ${id}`), { code: 1, err: /operator key .* not found/ })
  t.match(await ctl(['apikeys', 'mint', '']), { code: 2 })
})

t.test('config', async (t) => {
  const { ctl, json, agent } = await node(t)
  t.match(await ctl('config set api_rate_limit 60'), { code: 0, out: 'api_rate_limit: effective now\n' })
  t.equal(agent.config.int('api_rate_limit'), 60)
  t.match(await ctl('config set api_bind_address 127.0.0.1'), {
    out: 'api_bind_address: effective at restart of the agent\n',
  })
  t.same(await json('config get api_rate_limit'), { key: 'api_rate_limit', value: '60', source: 'override' })
  t.match(await ctl('config get api_rate_limit'), { out: '60\n' })
  t.match(await ctl('config list'), { out: /^KEY +SOURCE +VALUE\n(.*\n)*api_rate_limit +override +60\n/ })
  t.match(await ctl('config unset api_rate_limit'), { out: 'api_rate_limit: local value removed, effective now\n' })
  t.equal(agent.config.int('api_rate_limit'), 1000)
  t.match(await ctl(['config', 'set', 'api_allowed_ips', '']), { code: 0 })
  t.match(await ctl('config set api_rate_limit many'), { code: 1, err: /must be a whole number/ })
  t.match(await ctl('config set no_such_thing 1'), { code: 1, err: /no_such_thing/ })
  for (const key of ['api_token', 'tls_key_password', 'md5_key', 'shared_secret']) {
    t.match(await ctl(`config set ${key} x`), { code: 1, err: /is a credential/ }, key)
  }
  t.match(
    await ctl('config set tls_key /etc/tls/key.pem'),
    { code: 1, err: /does not exist/ },
    'a path is no credential',
  )
})

t.test('license', async (t) => {
  const { ctl, json } = await node(t, { licensed: false })
  t.match(await ctl('license status'), { code: 0, out: /^no licence is installed/ })
  t.match(await ctl('license evaluate'), { code: 0, out: /^state +(active|warning)\nplan +evaluation\n/ })
  t.match(await json('license status'), { license: { installed: true, days_remaining: Number } })
  t.match(await ctl('license evaluate'), { code: 1, err: /no evaluation licence/ })
  const file = join(scratch(t, 'licence'), 'file')
  t.match(await ctl(['license', 'install', file]), { code: 2, err: /cannot be read/ })
  writeFileSync(file, 'nonsense')
  t.match(await ctl(['license', 'install', file]), { code: 1, err: /stratumctl: ./ })
})

t.test('auth', async (t) => {
  const { ctl, json, call, agent } = await node(t)
  t.match(await ctl('auth blocks'), { code: 0, out: 'no address is blocked\n' })
  for (let n = 0; n < 10; n++) await call('GET', '/api/v1/status', undefined, { authorization: 'Bearer wrong' })
  t.equal((await call('GET', '/api/v1/status')).status, 429)
  const [block] = (await json('auth blocks')).blocks
  t.match(await ctl('auth blocks'), { out: /^ADDRESS +UNTIL +FAILURES\n127\.0\.0\.1 / })
  t.match(await ctl(`auth unblock ${block.address}`), { code: 0, out: '127.0.0.1 is not blocked any more\n' })
  t.equal((await call('GET', '/api/v1/status')).status, 200)
  const net = '2001:db8:0:0::/64'
  for (let n = 0; n < 10; n++) agent.gates.lockout.fail(net)
  t.equal((await json('auth blocks')).blocks[0].address, net)
  t.match(await ctl(`auth unblock ${net}`), { code: 0 }, 'a slash in an argument stays in it')
  t.match(await ctl('auth unblock 192.0.2.1'), { code: 1, err: /192\.0\.2\.1 not found/ })
})

t.test('service and status', async (t) => {
  const { ctl, json, agent } = await node(t)
  t.match(await ctl('status'), { code: 0, out: /^status +running\nversion +\d.*\nuptime +\d+.*s\nacceleration +/ })
  t.match(await json('status'), { status: 'running' })
  agent.services = {
    ...agent.services,
    status: () => [
      { name: 'rest', listening: '[::]:7070' },
      { name: 'grpc', off: 'no token' },
    ],
  }
  agent.states.turnOff('firewall', 'nft is not there')
  const lines = 'rest: listening [::]:7070\ngrpc: off: no token\n'
  const facilities = agent.plane
    .check()
    .map(({ name, available, detail }) => `data plane ${name}: ${available ? '' : 'off: '}${detail}\n`)
    .join('')
  t.match(facilities, /^data plane classifier: off: a plane in memory$/m)
  t.match(await ctl('service status'), { code: 0, out: `${lines}${facilities}firewall: off: nft is not there\n` })
  t.match(await ctl('service rest off'), { code: 0, out: lines })
  t.equal(agent.overrides.read().rest, false)
  t.match(await ctl('service rest on'), { code: 0, out: lines })
  t.equal(agent.overrides.read().rest, true)
  for (const line of ['service rest', 'service rest maybe', 'service control off', 'service grpc off']) {
    t.equal((await ctl(line)).code, 2, line)
  }
})

t.test('rules', async (t) => {
  const { ctl, json } = await node(t)
  t.match(await ctl('rules list'), { code: 0, out: 'no rules\n' })
  const all =
    '--action drop --priority 5 --protocol tcp --source-ip 10.0.0.0/8 --dest-ip 192.0.2.1 --source-port 53 ' +
    '--dest-port 80 --dest-port-max 90 --interface eth0 --mac 02:00:00:00:00:01 --level mac --chain prerouting --stateful'
  const added = await ctl([...`rules add ${all}`.split(' '), '--comment', 'all at once'])
  t.match(added, { code: 0, out: /^rule 1 added\n/, err: '' })
  t.match(await json('rules show 1'), {
    ...{ id: 1, action: 'drop', priority: 5, protocol: 'tcp', source_ip: '10.0.0.0/8', dest_ip: '192.0.2.1' },
    ...{ source_port: 53, dest_port: 80, dest_port_max: 90, interface: 'eth0', mac: '02:00:00:00:00:01' },
    ...{ level: 'mac', comment: 'all at once', chain: 'prerouting', stateful: true },
  })
  t.match(await ctl('rules list'), {
    out: /\n1 +mac +5 +drop +tcp from 10\.0\.0\.0\/8 source port 53 to 192\.0\.2\.1 port 80-90 in eth0 mac 02:\S+ +- +all at once\n$/,
  })
  t.match(await json('rules add --action accept'), { status: 'created', rule: { id: 2, priority: 0 } })
  t.match(await ctl('rules list'), { out: /\n2 +global +0 +accept +all traffic +- +-\n/ })

  t.match(await ctl('rules schedule 2 --from 22:00 --to 06:00 --daily'), {
    code: 0,
    out: 'rule 2: in force daily 22:00 to 06:00 UTC\n',
  })
  t.match(await json('rules show 2'), { schedule: { from: '22:00', to: '06:00', daily: true } })
  t.match(await ctl('rules show 2'), { out: /\nschedule +daily 22:00 to 06:00 UTC\n/ })
  t.match(await ctl('rules schedule 2 --from 2031-01-01T00:00:00Z --to 2031-02-01T00:00:00+01:00'), {
    out: 'rule 2: in force 2031-01-01T00:00:00Z to 2031-01-31T23:00:00Z\n',
  })
  t.match(await ctl('rules schedule 2 --from noon --to 13:00'), { code: 1, err: /from: must be an RFC 3339 time/ })
  t.match(await ctl('rules schedule 2 --from 12:00'), { code: 2, err: /--to/ })
  t.match(await ctl('rules unschedule 2'), { code: 0, out: 'rule 2: in force always\n' })
  t.notOk('schedule' in (await json('rules show 2')))

  t.match(await ctl('rules default'), { out: 'default action: allow\n' })
  t.match(await ctl('rules default deny'), { out: 'default action: deny\n' })
  t.same(await json('rules default'), { default_action: 'deny' })
  t.match(await ctl('rules default perhaps'), { code: 1, err: /must be allow or deny/ })
  t.match(await ctl('rules delete 2'), { code: 0, out: 'rule 2 deleted\n' })
  for (const line of ['rules delete 2', 'rules show 2', 'rules show ..', 'rules unschedule 2']) {
    t.match(await ctl(line), { code: 1, err: /not found/ }, line)
  }
  t.match(await ctl('rules add --action reject'), { code: 1, err: /action: must be accept or drop/ })
  t.match(await ctl('rules add --priority 1'), { code: 2, err: /--action/ })
})

t.test('rules trace, and rules list with counters', async (t) => {
  const { ctl, json } = await node(t)
  await ctl('rules add --action drop --dest-port 22 --priority 4 --level flow')
  const flow = 'rules trace --src 10.0.0.1 --dst 192.0.2.1'
  t.match(await ctl(`${flow} --proto tcp --sport 5000 --dport 22 --iif eth0 --mac 02:00:00:00:00:01`), {
    code: 0,
    out: /^decided by +rule 1\naction +drop\nrank +level flow, priority 4, place 1 among equals\nmatch +port 22\njudge +nft, rule by rule\n$/,
  })
  t.match(await json(`${flow} --dport 22`), { decided_by: 'rule', id: 1, action: 'drop', rule: { dest_port: 22 } })
  t.match(await ctl(`${flow} --proto 47`), { code: 0, out: /^decided by +the default action\naction +accept\njudge/ })
  await ctl('rules default deny')
  t.match(await ctl(`${flow} --dport 7070`), { out: /\naction +drop\nspared +no\n/ })
  t.match(await ctl('rules trace --src 10.0.0.1'), { code: 2, err: /--dst/ })
  t.match(await ctl(`${flow} --dport x`), { code: 2 })
  t.match(await ctl(`${flow} --proto gre`), { code: 1, err: /proto: must be tcp, udp, icmp or a number/ })
  t.match(await ctl('rules list --counters'), { code: 1, err: /counters need the eBPF classifier, which is off: / })

  const plane = fakePlane({ classifier: true })
  const counting = await node(t, { plane })
  for (const port of [1, 2]) await counting.ctl(`rules add --action drop --dest-port ${port}`)
  plane.judged.hits.set(2, { packets: 12n, bytes: 720n })
  t.match(await counting.ctl('rules list --counters'), {
    out: /^ID .* SCHEDULE +PACKETS +BYTES +COMMENT\n1 .* port 1 +- +- +- +-\n2 .* port 2 +- +12 +720 +-\n$/,
  })
  t.match(await counting.json('rules list --counters'), { rules: [{ id: 1 }, { id: 2, packets: 12, bytes: 720 }] })
  plane.judged.verdict = { id: 2, accept: false, probes: 5 }
  t.match(await counting.ctl(flow), { out: /\njudge +eBPF classifier, 5 tables looked into\n$/ })
})
