/** `stratumctl doctor` beside a running agent, one that was killed, and none; and how it judges. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startAgent } from '../../../test/agent.ts'
import { scratch } from '../../../test/build.ts'
import { netns, requireRoot } from '../../../test/netns.ts'
import { FACILITIES } from '../../remedies.ts'
import { licenceFindings, ofServices } from '../doctor/agent.ts'
import { type Finding, findingLines, worstOf } from '../doctor/finding.ts'
import { conntrackFindings, diskFinding, endFinding, kernelFindings } from '../doctor/host.ts'

const MAIN = join(import.meta.dirname, '../main.js')

interface Ran {
  code: number
  worst: string
  findings: Finding[]
  text: string
}

async function doctor(env: Record<string, string>, ...args: string[]): Promise<Ran> {
  const run = async (...more: string[]) => {
    const child = spawn(process.execPath, [MAIN, 'doctor', ...args, ...more], { env: { ...process.env, ...env } })
    let out = ''
    child.stdout.setEncoding('utf8').on('data', (piece) => {
      out += piece
    })
    const [code] = await once(child, 'close')
    return { code, out }
  }
  const { code, out } = await run('--json')
  return { code, ...JSON.parse(out), text: (await run()).out }
}

t.test('a running agent, then a killed one', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t)
  const config = { disabled_areas: 'dns' }
  const agent = await startAgent(t, { ns, licensed: false, config, env: { STRATUM_CLASSIFIER: 'off' } })
  const env = {
    STRATUM_RUN_DIR: agent.runDir,
    STRATUM_STATE_DIR: agent.stateDir,
    STRATUM_BPF_DIR: `/sys/fs/bpf/${ns.name}`,
  }
  const about = (ran: Ran, name: string) => ran.findings.find((finding) => finding.about === name)

  let ran = await doctor(env)
  t.equal(ran.code, 5, 'no licence')
  t.match(about(ran, 'licence'), { severity: 'failure', remedy: /license install/ })
  t.match(about(ran, 'rest'), { severity: 'ok', what: /listens on .*:7070/ })
  t.match(about(ran, 'certificate'), { severity: 'ok', what: /cert\.pem is valid until 20/ })
  t.match(about(ran, 'dns'), { severity: 'note', what: /disabled_areas/ })
  const { facilities } = (await agent.call('GET', '/control/v1/services')).body
  const names = (facilities as { name: string }[]).map(({ name }) => name)
  t.same([...FACILITIES].sort(), names.sort(), 'there is advice on every facility')
  t.match(about(ran, 'data plane classifier'), {
    severity: 'note',
    what: 'off: switched off (STRATUM_CLASSIFIER=off)',
    remedy: /environment of the unit/,
  })
  t.match(ran.text, /\nfailure +licence .*\n {2}do: stratumctl license install FILE\n$/)
  await agent.call('POST', '/control/v1/license/evaluate')
  await agent.call('PUT', '/control/v1/services/rest', { on: false })
  ran = await doctor(env)
  t.match(
    about(ran, 'licence'),
    { severity: 'ok', what: /^evaluation, until .* \(29 days\)/ },
    'nothing to warn of on day one',
  )
  t.match(about(ran, 'rest'), { severity: 'note', what: /switched off/, remedy: 'stratumctl service rest on' })

  await agent.kill('SIGKILL')
  const log = join(scratch(t, 'log'), 'log')
  writeFileSync(
    log,
    '{"level":"error","time":"2030-01-01","msg":"it went wrong","err":{"message":"disk full"}}\n{"level":"info","msg":"bye"}\n',
  )
  ran = await doctor(env, '--log', log)
  t.match(
    [ran.code, about(ran, 'agent')],
    [5, { severity: 'failure', what: /is stratumd running/, remedy: /systemctl start/ }],
  )
  t.match(about(ran, 'control socket'), { what: /is there, and nobody answers/ })
  t.match(about(ran, 'process'), { what: 'none holds the lock of the state' })
  t.match(about(ran, 'log'), { what: '2030-01-01 error: it went wrong: disk full' })
  t.match(about(ran, 'certificate'), { severity: 'ok' })
})

t.test('what an agent tells, with what turns it on', async (t) => {
  const found = ofServices({
    services: [
      { name: 'rest', off: 'no certificate: gone' },
      { name: 'grpc', off: 'listen EADDRINUSE' },
    ],
    areas: [{ name: 'lb' }, { name: 'bgp', reason: 'needs bgp' }],
    facilities: [
      { name: 'bgp', available: false, detail: 'the user frr is missing' },
      { name: 'nft', available: true, detail: 'fine', restarts: 3 },
      { name: 'port', available: false, detail: 'libbpf.so.1 is missing: install libbpf1' },
    ],
    troubles: [
      'somebody else changes rule/1',
      'nat: device nope is not there, which source NAT rule 3 of 10.8.0.0/24 waits for',
      'odd',
    ],
  })
  t.equal(worstOf(found), 'failure')
  const of = (about: string) => found.find((finding) => finding.about === about)
  t.match(of('rest'), { severity: 'failure', remedy: /tls_cert/ })
  t.match(of('grpc'), { severity: 'failure', remedy: /ss -ltnp/ })
  t.match(of('bgp'), { severity: 'warning', remedy: 'apt-get install frr' })
  t.match(of('data plane nft'), { severity: 'warning', what: /3 times/ })
  t.match(of('data plane port'), { severity: 'warning', remedy: 'apt-get install libbpf1' })
  t.match(of('degraded'), { severity: 'warning', remedy: /agent\.drift/ })
  t.match(
    found.filter(({ about }) => about === 'degraded').map(({ remedy }) => remedy),
    [/agent\.drift/, /snat list/, /journalctl/],
    'nothing that makes the agent degraded is told without what to do',
  )
  t.equal(of('lb'), undefined)
})

t.test('how it judges', async (t) => {
  const now = new Date('2030-01-01T00:00:00Z')
  const day = (days: number) => new Date(now.getTime() + days * 86_400_000)
  t.same(
    [400, 29, -1].map((days) => endFinding('c', day(days), now, true).severity),
    ['ok', 'warning', 'failure'],
  )
  const disk = (free: number, inodes = 1) => diskFinding('/d', { free, total: 1e10, inodes }).severity
  t.same(
    [5e9, 4e8, 1e8, 1e6].map((free) => disk(free)),
    ['ok', 'warning', 'warning', 'failure'],
  )
  t.same([disk(5e9, 0.01), disk(5e9, 0)], ['warning', 'failure'])
  t.same(
    [10, 95, 100].map((count) => conntrackFindings(count, 100)[0]?.severity),
    ['ok', 'warning', 'failure'],
  )
  t.same(conntrackFindings(Number.NaN, 1), [])
  t.same(
    kernelFindings('6.4.1-amd64', true).map(({ severity }) => severity),
    ['ok'],
  )
  t.match(kernelFindings('6.1.0-28-amd64', true), [{ what: /^Linux .* older than 6.4: no eBPF classifier/ }])
  t.match(kernelFindings('5.10.0-28-amd64', true)[0], {
    what: /older than 6.1: no programs on workload ports, so none/,
  })
  t.same(kernelFindings('6.18.4', false).at(-1)?.severity, 'warning')
  const view = {
    installed: true,
    serial_number: 's',
    plan: 'p',
    release_channel: 'r',
    valid_until: 'u',
    days_remaining: 1,
    expired: false,
    hardware_grace: false,
    max_bandwidth_gbps: 0,
    features: {} as never,
  } as const
  const licence = (state: 'active' | 'grace' | 'frozen') =>
    licenceFindings({ ...view, state, mutations_allowed: state !== 'frozen' })[0]?.severity
  t.same([licence('active'), licence('grace'), licence('frozen')], ['ok', 'warning', 'failure'])
  t.equal(
    findingLines([
      { severity: 'failure', about: 'a', what: 'b', remedy: 'c' },
      { severity: 'ok', about: 'dd', what: 'e' },
    ]),
    'ok       dd  e\nfailure  a   b\n  do: c',
  )
})
