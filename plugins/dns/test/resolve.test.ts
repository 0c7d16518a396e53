/** Names over the wire: the agent in one namespace, `dig`, `delv` and a validating resolver in another. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { scratch } from '../../../test/build.ts'
import { readExposition } from '../../../test/exposition.ts'
import { type Netns, netns, requireRoot, type Scope, veth } from '../../../test/netns.ts'
import { endResponder, responderPid } from '../../../test/responder.ts'
import { DNS } from './area.ts'

if (!requireRoot(t)) process.exit()

const SERVER = '192.0.2.1'
const SERVER6 = '2001:db8::1'
/** Inside and outside of 10.0.0.0/8 and fd00::/8. */
const [NEAR, FAR, NEAR6, FAR6] = ['10.1.2.3', '198.51.100.7', 'fd00::7', '2001:db8::7']

interface Site {
  node: Netns
  client: Netns
  agent: RunningAgent
  zone: number
  record(fields: object): Promise<number>
  /** What `dig +short` prints, line by line. */
  dig(...args: string[]): string[]
}

async function site(t: Scope): Promise<Site> {
  const [node, client] = [netns(t, 'node'), netns(t, 'client')]
  const [inner, outer] = [`${SERVER}/24`, `${SERVER6}/64`]
  veth(
    t,
    { ns: node, name: 'wan0', addr: [inner, outer] },
    { ns: client, name: 'eth0', addr: ['192.0.2.9/24', `${NEAR}/32`, `${FAR}/32`, `${FAR6}/64`, `${NEAR6}/128`] },
  )
  for (const block of [`${NEAR}/32`, `${FAR}/32`, `${NEAR6}/128`]) node.run('ip', 'route', 'add', block, 'dev', 'wan0')
  const agent = await startAgent(t, { ns: node, config: { dns_listen: `${SERVER},${SERVER6}` } })
  const made = await agent.call('POST', `${DNS}/zones`, { name: 'example.org' })
  const { id: zone } = made.body.zone as { id: number }
  return {
    ...{ node, client, agent, zone },
    async record(fields) {
      const answer = await agent.call('POST', `${DNS}/records`, { zone_id: zone, ...fields })
      if (answer.status !== 201) throw new Error(answer.text)
      return (answer.body.record as { id: number }).id
    },
    dig: (...args) =>
      client
        .run('dig', '+tries=1', '+time=5', ...(args[0]?.startsWith('@') ? [] : [`@${SERVER}`]), ...args)
        .split('\n')
        .filter((line) => line !== ''),
  }
}

t.test('dns-10 dns-04 a record resolves at once over UDP and TCP with its TTL, and is gone at once', async (t) => {
  const { agent, zone, record, dig } = await site(t)
  await record({ name: 'www', type: 'A', value: '192.0.2.80', ttl: 77 })
  for (const way of [[], ['+tcp']]) {
    t.match(
      dig(...way, '+noall', '+answer', 'www.example.org', 'A').join(),
      /^www\.example\.org\.\s+77\s+IN\s+A\s+192\.0\.2\.80$/,
    )
    t.same(dig(...way, '+short', 'WWW.example.ORG', 'A'), ['192.0.2.80'])
  }
  t.same(dig(`@${SERVER6}`, '+short', 'www.example.org', 'A'), ['192.0.2.80'], 'over IPv6')
  const values: [string, string, string][] = [
    ['AAAA', '2001:db8::80', '2001:db8::80'],
    ['MX', '10 mail.example.org.', '10 mail.example.org.'],
    ['TXT', 'v=spf1 "x" \\ -all', '"v=spf1 \\"x\\" \\\\ -all"'],
    ['SRV', '1 2 443 www.example.org.', '1 2 443 www.example.org.'],
    ['NS', 'ns.other.example.', 'ns.other.example.'],
    ['PTR', 'host.example.org.', 'host.example.org.'],
  ]
  for (const [type, value, shown] of values) {
    const name = type === 'NS' ? '@' : `t-${type.toLowerCase()}`
    await record({ name, type, value })
    t.same(dig('+short', name === '@' ? 'example.org' : `${name}.example.org`, type), [shown], type)
  }
  await record({ name: 'alias', type: 'CNAME', value: 'www.example.org' })
  t.same(dig('+short', 'alias.example.org', 'A'), ['www.example.org.', '192.0.2.80'])
  t.match(
    dig('+short', 'example.org', 'SOA').join(),
    /^ns1\.example\.org\. hostmaster\.example\.org\. \d{10} 3600 600 604800 300$/,
  )
  t.match(dig('elsewhere.example', 'A').join('\n'), /status: REFUSED/)
  t.match(dig('no.example.org', 'A').join('\n'), /status: NXDOMAIN/)
  const long = 'x'.repeat(4000)
  await record({ name: 'long', type: 'TXT', value: long })
  t.match(dig('+ignore', 'long.example.org', 'TXT').join('\n'), /flags: qr( aa)? tc/)
  t.equal(dig('+short', 'long.example.org', 'TXT').join('').replace(/[" ]/g, ''), long, 'dig comes again by TCP')
  await agent.call('DELETE', `${DNS}/records/1`)
  t.same(dig('+short', 'www.example.org', 'A'), [])
  await agent.call('DELETE', `${DNS}/zones/${zone}`)
  t.match(dig('t-aaaa.example.org', 'AAAA').join('\n'), /status: REFUSED/)
})

t.test('dns-11 dns-12 who asks decides, and the narrowest subnet wins', async (t) => {
  const { record, dig } = await site(t)
  await record({ name: 'www', type: 'A', value: '192.0.2.80' })
  await record({ name: 'www', type: 'A', value: '10.0.0.80', source_subnet: '10.0.0.0/8' })
  await record({ name: 'www', type: 'A', value: '10.1.0.80', source_subnet: '10.1.0.0/16' })
  await record({ name: 'www', type: 'A', value: '10.6.0.80', source_subnet: 'fd00::/8' })
  const ask = (source: string, server = SERVER) => dig(`@${server}`, '-b', source, '+short', 'www.example.org', 'A')
  t.same([ask(NEAR), ask(FAR)], [['10.1.0.80'], ['192.0.2.80']])
  t.same([ask(NEAR6, SERVER6), ask(FAR6, SERVER6)], [['10.6.0.80'], ['192.0.2.80']])
  t.same(
    dig('-b', FAR, '+subnet=10.1.2.0/24', '+short', 'www.example.org', 'A'),
    ['192.0.2.80'],
    'what it says of others is not believed',
  )
})

t.test('dns-18 dns-19 signed answers and denials validate against the DS, also after a restart', async (t) => {
  const { client, agent, record } = await site(t)
  await record({ name: 'www', type: 'A', value: '192.0.2.80' })
  await record({ name: '_sip._tcp', type: 'SRV', value: '1 2 5060 www.example.org' })
  await record({ name: 'split', type: 'A', value: '10.0.0.80', source_subnet: '10.0.0.0/8' })
  const { body } = await agent.call('GET', `${DNS}/dnssec/example.org`)
  const [, , , , ...key] = String((body.dnskey as string[])[0]).split(' ')
  const [flags, protocol, algorithm, material] = ['257', '3', '13', key.at(-1)]
  const anchors = join(scratch(t), 'anchors')
  writeFileSync(
    anchors,
    `trust-anchors { example.org. static-key ${flags} ${protocol} ${algorithm} "${material}"; };\n`,
  )
  const delv = (source: string, name: string, type: string) =>
    client.run('delv', `@${SERVER}`, '-b', source, '-a', anchors, '+root=example.org', name, type)
  const check = (when: string) => {
    t.match(delv(FAR, 'www.example.org', 'A'), /; fully validated\nwww\.example\.org\./, `an answer ${when}`)
    t.match(delv(FAR, 'www.example.org', 'AAAA'), /; negative response, fully validated/, `no such type ${when}`)
    t.match(delv(FAR, 'a.b.example.org', 'A'), /; negative response, fully validated/, `no such name ${when}`)
    t.match(delv(FAR, '_tcp.example.org', 'A'), /; negative response, fully validated/, `an empty name ${when}`)
    t.match(delv(NEAR, 'split.example.org', 'A'), /; fully validated/, `inside ${when}`)
    t.match(delv(FAR, 'split.example.org', 'A'), /; negative response, fully validated/, `outside ${when}`)
  }
  check('at once')
  await agent.kill('SIGKILL')
  await agent.restart()
  t.same((await agent.call('GET', `${DNS}/dnssec/example.org`)).body, body, 'the same keys')
  check('after a restart')
  t.equal(await validates(t, client, String(body.ds)), 'NOERROR ad, NXDOMAIN ad', 'a validating resolver with the DS')
})

/** What unbound, whose only trust is the DS, says of a name that exists and of one that does not. */
async function validates(t: Scope, client: Netns, ds: string): Promise<string> {
  const dir = scratch(t)
  mkdirSync(join(dir, 'run'))
  const [owner, ttl, ...rest] = ds.split(' ')
  writeFileSync(
    join(dir, 'unbound.conf'),
    `server:
  directory: "${dir}"
  chroot: ""
  username: ""
  use-syslog: no
  pidfile: "${dir}/run/pid"
  interface: 127.0.0.1
  do-not-query-localhost: no
  module-config: "validator iterator"
  trust-anchor: "${owner} ${ttl} ${rest.join(' ')}"
stub-zone:
  name: "example.org"
  stub-addr: ${SERVER}
remote-control:
  control-enable: no
`,
  )
  client.spawn('unbound', ['-d', '-c', join(dir, 'unbound.conf')])
  const ask = (name: string) => client.run('dig', '@127.0.0.1', '+tries=1', '+time=5', '+dnssec', name, 'A')
  for (let tries = 0; ; tries++) {
    try {
      ask('www.example.org')
      break
    } catch (error) {
      if (tries > 50) throw error
      await wait(100)
    }
  }
  return ['www.example.org', 'no.example.org']
    .map((name) => {
      const text = ask(name)
      const [, status] = /status: (\w+)/.exec(text) ?? []
      return `${status}${/flags:[^;]* ad/.test(text) ? ' ad' : ''}`
    })
    .join(', ')
}

t.test('names resolve while no agent runs, and the next one takes over without a missed answer', async (t) => {
  const { client, agent, record, dig } = await site(t)
  await record({ name: 'www', type: 'A', value: '192.0.2.80' })
  const socket = join(agent.runDir, 'responder.sock')
  const asking = client.spawn('sh', [
    '-c',
    `while :; do dig @${SERVER} +tries=1 +time=2 +short www.example.org A || echo missed; sleep 0.02; done`,
  ])
  const answers: string[] = []
  asking.stdout?.on('data', (bytes: Buffer) => answers.push(...bytes.toString().trim().split('\n')))
  await agent.kill('SIGKILL')
  const pid = await responderPid(socket)
  t.same(dig('+short', 'www.example.org', 'A'), ['192.0.2.80'], 'without an agent')
  await agent.restart()
  t.equal(await responderPid(socket), pid, 'the same process')
  asking.kill()
  t.ok(answers.length > 5, `control: ${answers.length} answers`)
  t.same(new Set(answers), new Set(['192.0.2.80']))
})

/** Asks for www.example.org every 10 ms; says on a line of input how long it was silent at most, ms. */
const PROBE = `
const socket = require('node:dgram').createSocket('udp4')
const query = Buffer.from('00010000000100000000000003777777076578616d706c65036f72670000010001', 'hex')
let [last, gap] = [performance.now(), 0]
socket.on('error', () => {}).on('message', () => {
  const now = performance.now()
  gap = Math.max(gap, now - last)
  last = now
})
setInterval(() => socket.send(query, 53, '${SERVER}', () => {}), 10)
process.stdin.on('data', () => console.log(Math.round(gap)))
`

t.test('what answers is started anew after a crash, with everything it knew', async (t) => {
  const { node, client, agent, record, dig } = await site(t)
  await record({ name: 'www', type: 'A', value: '192.0.2.80' })
  const pids = () =>
    execFileSync('pgrep', ['-f', join(agent.runDir, 'responder.sock')], { encoding: 'utf8' })
      .trim()
      .split('\n')
  const [pid] = pids()
  const probe = client.spawn(process.execPath, ['-e', PROBE], { stdio: ['pipe', 'pipe', 'inherit'] })
  const silence = async () => {
    probe.stdin?.write('?\n')
    const [bytes] = await once(probe.stdout ?? probe, 'data')
    return Number(String(bytes))
  }
  await silence()
  process.kill(Number(pid), 'SIGKILL')
  const resolves = () => {
    try {
      return dig(`@${SERVER}`, '+time=1', '+short', 'www.example.org', 'A')[0] === '192.0.2.80'
    } catch {
      return false
    }
  }
  for (const end = Date.now() + 20_000; !resolves() && Date.now() < end; ) await wait(20)
  t.comment(`silent for ${await silence()} ms`)
  t.not(pids()[0], pid)
  t.same(dig('+short', 'www.example.org', 'A'), ['192.0.2.80'])
  while (!agent.logged.some(({ err }) => /responder ended/.test(JSON.stringify(err) ?? ''))) await wait(20)
  t.match(node.run('ss', '-lunp'), /192\.0\.2\.1:53/)
  const status = readStatus(pids()[0])
  t.match(status, /Uid:\t(?!0\t|65534\t)/, 'it is not root, nor nobody')
  t.match(status, /CapEff:\s+0+2400\n/, 'and may bind ports, no more')
})

const readStatus = (pid: string | undefined) => execFileSync('cat', [`/proc/${pid}/status`], { encoding: 'utf8' })

/** Another server, on an address of the node. */
async function occupy(node: Netns, address: string): Promise<() => void> {
  node.run('ip', 'address', 'add', `${address}/32`, 'dev', 'lo')
  const child = node.spawn(process.execPath, [
    '-e',
    `require('node:dgram').createSocket('udp4').bind(53, '${address}')`,
  ])
  while (!node.run('ss', '-lun').includes(`${address}:53`)) await wait(20)
  return () => child.kill()
}

t.test('an address that another server has is refused to a change, and waits at a start', async (t) => {
  const { node, agent } = await site(t)
  const listen = (value: string) => agent.call('PUT', '/control/v1/config/dns_listen', { value })
  const waiting = async () =>
    readExposition((await agent.call('GET', '/api/v1/metrics')).text).value('stratum_dns_waiting')
  await listen('')
  const leave = await occupy(node, '10.77.0.1')
  const network = { name: 'lab', cidr: '10.77.0.0/24', gateway: '10.77.0.1', host_gateway: true }
  const refused = await agent.call('POST', '/api/v1/networks', network)
  t.equal(refused.status, 409)
  t.match(refused.body.error, /10\.77\.0\.1:53.*another DNS server/)
  t.same((await agent.call('GET', '/api/v1/networks')).body.networks, [], 'and there is no such network')
  await listen('10.77.0.1')
  t.equal(await waiting(), 1, 'what is configured waits')
  await agent.kill()
  await endResponder(join(agent.runDir, 'responder.sock'))
  await agent.restart()
  t.equal(await waiting(), 1, 'after a start as well')
  leave()
  for (const end = Date.now() + 20_000; (await waiting()) === 1 && Date.now() < end; ) await wait(100)
  t.equal(await waiting(), 0, 'and is taken once it is free')
})
