/** `stratumctl support-bundle`: what is in it, and above all what is not, of a node that is full of secrets. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startAgent } from '../../../test/agent.ts'
import { scratch } from '../../../test/build.ts'
import { netns, requireRoot } from '../../../test/netns.ts'
import { openScrubber } from '../bundle/scrub.ts'
import { tar } from '../bundle/tar.ts'

const MAIN = join(import.meta.dirname, '../main.js')

/** Every file below `dir`: name → text. */
function unpacked(dir: string): Map<string, string> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return new Map(
    entries.map((entry) => {
      const file = join(entry.parentPath, entry.name)
      return [file.slice(dir.length + 1), readFileSync(file, 'latin1')]
    }),
  )
}

t.test('nothing of what is secret or somebody said is in a bundle', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t)
  const dir = scratch(t, 'bundle')
  const agent = await startAgent(t, { ns })
  const secrets: string[] = [agent.token]
  const said: string[] = []
  const add = async (path: string, body: object, status = 201) => {
    const answer = await agent.call('POST', path, body)
    t.equal(answer.status, status, `${path}: ${answer.text}`)
    return answer.body as Record<string, never>
  }
  const words = (text: string) => {
    said.push(text)
    return text
  }
  const hidden = (text: string) => {
    secrets.push(text)
    return text
  }
  ns.run('ip', 'link', 'add', 'eth9', 'type', 'veth', 'peer', 'name', 'eth8')
  ns.run('ip', 'link', 'set', 'eth9', 'alias', words('Rack of Erika'))
  ns.run('ip', 'link', 'set', 'eth9', 'up')

  hidden((await add('/control/v1/apikeys', { label: words('Erika-laptop') })).key as unknown as string)
  const { tenant } = (await add('/api/v1/tenant', { name: words('Mustermann and Sons') })) as never as {
    tenant: { id: string }
  }
  const minted = await add(`/api/v1/tenant/${tenant.id}/keys`, { label: words('portal-of-Max') })
  hidden(minted.secret as unknown as string)
  const peer = { peer_addr: '192.0.2.9', peer_as: 65001, local_as: 65000, md5_key: hidden('s3cr3t-Md5/of-the-peer') }
  await add('/api/v1/bgp/neighbors', peer)
  await add('/api/v1/rules', { action: 'drop', source_ip: '198.51.100.7', comment: words('Max owes us money') })
  const network = { name: words('lan-of-erika'), cidr: '10.9.0.0/24', tenant_id: tenant.id }
  await add('/api/v1/networks', network)
  const { zone } = (await add('/api/v1/dns/zones', { name: words('mustermann.example') })) as never as {
    zone: { id: number }
  }
  const record = {
    zone_id: zone.id,
    name: words('erikas-phone'),
    type: 'TXT',
    value: words('born 1980-01-01'),
    ttl: 60,
  }
  await add('/api/v1/dns/records', record)
  const pool = { name: words('Pool Erika'), subnet: '10.8.0.0/24' }
  const made = (await add('/api/v1/ipam/pools', pool)) as never as { pool: { id: number } }
  await add('/api/v1/ipam/allocate', { pool_id: made.pool.id, hostname: words('max-notebook') }, 200)
  await add('/api/v1/lb', {
    id: words('erikas-shop'),
    frontend_ip: '192.0.2.80',
    frontend_port: 80,
    algorithm: 'maglev',
  })

  // What lies beside the agent: keys of TLS, licence, hashes.
  const state = (file: string) => readFileSync(join(agent.stateDir, file), 'utf8')
  for (const line of state('tls/key.pem').split('\n')) if (line.length > 20) hidden(line)
  for (const file of readdirSync(agent.stateDir)) {
    if (!/licen|evaluation/.test(file)) continue
    for (const run of state(file).match(/[A-Za-z0-9+/=_-]{40,}/g) ?? []) hidden(run)
  }
  hidden(JSON.parse(state('overrides.json')).tokenHash)

  const log = join(dir, 'agent.log')
  const lines = [
    {
      level: 'info',
      time: '2030-01-01T00:00:00Z',
      msg: `bound ${words('secretary-pc')} to "${words('Jane Roe')}"`,
      token: secrets[0],
    },
    {
      level: 'error',
      msg: 'it failed',
      err: { message: `refused ${secrets[1]}: network lan-of-erika`, stack: state('tls/key.pem') },
    },
    {
      level: 'info',
      msg: `Authorization: Bearer ${secrets[2]}`,
      deep: [{ password: hidden('hunter2!') }],
      host: 'secretary-pc',
    },
  ]
  writeFileSync(log, `${lines.map((line) => JSON.stringify(line)).join('\n')}\npanic: ${secrets[1]}\n`)

  const out = join(dir, 'bundle.tar.gz')
  const env = { ...process.env, STRATUM_RUN_DIR: agent.runDir, STRATUM_STATE_DIR: agent.stateDir }
  const ctl = (...args: string[]) =>
    spawnSync('nsenter', [`--net=${ns.path}`, process.execPath, MAIN, 'support-bundle', ...args], {
      env,
      encoding: 'utf8',
    })
  const ran = ctl(out, '--log', log)
  t.match([ran.status, ran.stdout, ran.stderr], [0, /bundle\.tar\.gz: \d+ files/, ''])
  t.equal(statSync(out).mode & 0o777, 0o600)
  t.match(ctl(out), { status: 2, stderr: /EEXIST/ }, 'it writes over nothing')

  // The tar of the system reads it.
  const untar = spawnSync('tar', ['-xzf', out, '-C', dir], { encoding: 'utf8' })
  t.same([untar.status, untar.stderr], [0, ''])
  const files = unpacked(join(dir, 'stratum-support'))
  for (const name of [
    ...[
      'agent/rest/rules.json',
      'agent/rest/tenant.json',
      'agent/rest/bgp-neighbors.json',
      'agent/rest/dns-records.json',
    ],
    ...['agent/config.json', 'agent/events.ndjson', 'agent/metrics.txt', 'agent/control/services.json', 'log.ndjson'],
    ...['kernel/nft.txt', 'kernel/links.json', 'kernel/bpf-links.json', 'doctor.json', 'versions.json', 'README.txt'],
  ]) {
    t.ok((files.get(name) ?? '').length > 2, name)
  }
  t.notOk(files.has('agent/rest/flows.json'), 'who talks to whom')

  t.ok(secrets.length > 8)
  for (const secret of secrets) {
    const digests = ['sha256', 'sha512', 'sha1', 'md5'].flatMap((kind) => {
      const hash = createHash(kind).update(secret).digest()
      return [hash.toString('hex'), hash.toString('base64'), hash.toString('base64url')]
    })
    for (const [name, text] of files) {
      t.notOk(
        [secret, Buffer.from(secret).toString('base64'), ...digests].some((one) => text.includes(one)),
        name,
      )
    }
  }
  for (const text of said) {
    for (const [name, content] of files)
      t.notOk(content.toLowerCase().includes(text.toLowerCase()), `${text} in ${name}`)
  }

  // What is left is enough to work with.
  const rules = JSON.parse(files.get('agent/rest/rules.json') ?? '')
  t.match(rules, { rules: [{ id: 1, action: 'drop', source_ip: '198.51.100.7', comment: /^text-\d+$/ }] })
  const [shownTenant] = JSON.parse(files.get('agent/rest/tenant.json') ?? '').tenants
  t.match(shownTenant, { id: tenant.id, status: 'active', name: /^text-\d+$/ })
  const created = (files.get('agent/events.ndjson') ?? '').split('\n').find((line) => line.includes('tenant.created'))
  t.ok(created?.includes(`"${shownTenant.name}"`), 'the same text is the same everywhere')
  t.match(files.get('kernel/nft.txt'), /table inet stratum/)
  t.match(files.get('kernel/links.json'), /"ifname":"eth9"/)
  t.match(files.get('log.ndjson'), /"msg":"it failed".*\n.*\n\{"lines_left_out":1\}/)
  t.match(JSON.parse(files.get('agent/config.json') ?? ''), { drift_interval: { value: '60', source: 'default' } })
  t.match(files.get('doctor.json'), /"about": "data plane nft"/)
  t.match(files.get('agent/control/services.json'), /"listening": ".*:7070"/)
  t.match(files.get('agent/metrics.txt'), /stratum_firewall_rules\{/)

  await agent.kill('SIGKILL')
  const without = join(dir, 'without.tar.gz')
  t.match(ctl(without), { status: 0, stderr: /does not answer: the bundle holds what can be seen without it/ })
  t.match(spawnSync('tar', ['-tzf', without], { encoding: 'utf8' }).stdout, /kernel\/nft\.txt/)
  t.match(ctl('/no/such/dir/x'), { status: 2, stderr: /cannot be written/ })
})

t.test('text is kept where its form shows what it is', async (t) => {
  const scrubber = openScrubber(new Set(['drop', 'rules', 'api', 'v1', 'eth0']))
  const kept = [
    '',
    '10.0.0.1',
    '2001:db8::/32',
    '02:00:00:00:00:01',
    '2030-01-01T00:00:00.5Z',
    'ten-0f3a5b7c9d1e',
    '12',
    'drop',
  ]
  t.same(scrubber.value(kept), kept)
  t.same(scrubber.value({ a: 'Max', b: ['Erika', 'Max'], n: null, i: 3, yes: true }), {
    a: 'text-1',
    b: ['text-2', 'text-1'],
    n: null,
    i: 3,
    yes: true,
  })
  t.equal(scrubber.value('/api/v1/rules/12/Max'), '/api/v1/rules/12/text-1')
  t.same(
    scrubber.value({
      'Max M': 1,
      md5_key: 'x',
      tokenHash: 'y',
      key: 'z',
      keys: [{ secret: { a: 1 } }],
      has_token: true,
    }),
    {
      'text-3': 1,
      md5_key: '[removed]',
      tokenHash: '[removed]',
      key: '[removed]',
      keys: [{ secret: '[removed]' }],
      has_token: true,
    },
  )
  t.equal(scrubber.sentence('rule 12 of Max on "eth0" and "any" eth0'), 'rule 12 of text-1 on "eth0" and [text] eth0')
  t.equal(scrubber.sentence('nt_0123456789abcdefghijABCDEF/x'), '[removed]')
  t.equal(
    scrubber.sentence('at run (file:///opt/stratum/build/core/state/reconcile.js:12:3)'),
    'at run (file:///opt/stratum/build/core/state/reconcile.js:12:3)',
  )
})

t.test('the archive is what others expect', async (t) => {
  const time = new Date(1_900_000_000_000)
  const bytes = tar(
    [
      { name: 'a/b', content: Buffer.from('x'.repeat(512)) },
      { name: 'c', content: Buffer.alloc(0) },
    ],
    time,
  )
  const file = join(scratch(t, 'tar'), 'x.tar')
  writeFileSync(file, bytes)
  const listed = spawnSync('tar', ['--utc', '-tvf', file], { encoding: 'utf8' })
  t.same(listed.stderr, '')
  t.match(listed.stdout, /^-rw------- 0\/0 +512 2030-03-17 17:46 a\/b\n-rw------- 0\/0 +0 2030-03-17 17:46 c\n$/)
  t.throws(() => tar([{ name: 'x'.repeat(101), content: Buffer.alloc(0) }], time), RangeError)
})
