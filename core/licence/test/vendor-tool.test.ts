import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { CAPABILITIES } from '../plan.ts'
import { node, scratch } from './vendor.ts'

const TOOL = fileURLToPath(new URL('../../../scripts/license.js', import.meta.url))

function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [TOOL, ...args], { encoding: 'utf8', timeout: 30_000 })
  return { status, stdout, stderr }
}

t.test('keygen makes a key pair once, and sign makes every state of a licence', async (t) => {
  const dir = scratch(t)
  const key = join(dir, 'vendor.pem')
  t.match(run('keygen', '--out', dir), { status: 0, stdout: '' })
  t.equal(statSync(key).mode & 0o777, 0o600)
  t.match(readFileSync(join(dir, 'vendor.pub'), 'utf8'), /BEGIN PUBLIC KEY/)
  const before = readFileSync(key, 'utf8')
  t.match(run('keygen', '--out', dir), { status: 1, stderr: /EEXIST/ })
  t.equal(readFileSync(key, 'utf8'), before)

  const here = node(t)
  const installed = here.start({
    trustedKeys: () => [join(dir, 'vendor.pub')],
    now: () => new Date(),
    loadMarks: () => ({}),
  })
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()
  const states: [string[], object][] = [
    [[], { state: 'active', days_remaining: 364, plan: 'standard', release_channel: 'stable' }],
    [['--days', '10'], { state: 'active', days_remaining: 9 }],
    [['--from', daysAgo(80), '--days', '90'], { state: 'warning', days_remaining: 9 }],
    [['--until', daysAgo(3)], { state: 'grace', days_remaining: -4, expired: true }],
    [['--until', daysAgo(15)], { state: 'frozen', mutations_allowed: false }],
    [['--from', daysAgo(400), '--days', '365'], { state: 'frozen' }],
    [['--hardware-id', 'other'], { state: 'active', hardware_grace: true }],
    [
      ['--serial', 'S1', '--plan', 'P1', '--channel', 'beta', '--gbps', '25', '--features', 'dns,bgp'],
      {
        serial_number: 'S1',
        plan: 'P1',
        release_channel: 'beta',
        max_bandwidth_gbps: 25,
        features: { dns: true, lb: undefined },
      },
    ],
  ]
  for (const [options, expected] of states) {
    const { stdout } = run('sign', '--key', key, ...options)
    t.match(await installed.install(stdout), expected, options.join(' '))
  }
  const view = installed.view()
  t.same(view.installed && CAPABILITIES.filter((name) => view.features[name]), ['dns', 'bgp'])

  const out = join(dir, 'out.json')
  t.match(run('sign', '--key', key, '--out', out, '--features', 'none'), { status: 0, stdout: '' })
  t.match(await installed.install(readFileSync(out, 'utf8')), { features: { dns: false, cluster: false } })
})

t.test('usage errors exit 2 and tell the usage, other failures exit 1', async (t) => {
  const wrong: [string[], RegExp][] = [
    [[], /name a command/],
    [['bake'], /unknown command bake/],
    [['keygen'], /needs --out/],
    [['sign'], /needs --key/],
    [['sign', '--key', 'k', '--colour', 'red'], /--colour/],
    [['sign', '--key', 'k', '--features', 'dns,magic'], /unknown feature magic/],
    [['sign', '--key', 'k', '--days', 'ten'], /--days must be a whole number/],
    [['sign', '--key', 'k', '--until', '2030-02-30'], /--until must be like/],
    [['sign', '--key', 'k', '--until', '2030-01-01', '--days', '3'], /not both/],
    [['sign', '--key', 'k', '--from', '2030-01-02', '--until', '2030-01-01'], /must end after it begins/],
  ]
  for (const [args, message] of wrong) {
    const { status, stderr } = run(...args)
    t.equal(status, 2, args.join(' '))
    t.match(stderr, message)
    t.match(stderr, /Usage:/)
  }
  t.match(run('sign', '--key', join(scratch(t), 'missing.pem')), { status: 1, stderr: /ENOENT/ })
  t.match(run('--help'), { status: 0, stdout: /Usage:/ })
})
