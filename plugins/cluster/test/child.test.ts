import '../../../test/inside.ts'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { here } from '../../../test/inside.ts'
import { netnsNamed, requireRoot } from '../../../test/netns.ts'
import { type EtcdExit, endLeft, etcdArguments, startEtcd, whyNoEtcd } from '../etcd/child.ts'
import { openSession } from '../etcd/session.ts'
import { settingsOf, startBare } from './bare.ts'
import { until } from './node.ts'

requireRoot(t)

const STARTER = `
const [module, settings] = process.argv.slice(1)
const { startEtcd } = await import(module)
const child = await startEtcd(JSON.parse(settings), () => {})
console.log(child.pid)
setInterval(() => {}, 1000)
`
const alive = (pid: number) =>
  existsSync(`/proc/${pid}/exe`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))

t.test('an etcd that is there and does not run is told as such, and tried again', async (t) => {
  const program = join(scratch(t), 'etcd')
  t.match(whyNoEtcd(program), `${program} is missing: install`)
  writeFileSync(program, '#!/bin/sh\necho "error while loading shared libraries" >&2\nexit 127\n', { mode: 0o755 })
  t.equal(
    whyNoEtcd(program),
    `${program} does not run: error while loading shared libraries: apt-get install --reinstall etcd-server`,
  )
  writeFileSync(program, '#!/bin/sh\nkill -9 $$\n')
  t.match(whyNoEtcd(program), 'it ended by SIGKILL')
  writeFileSync(program, '#!/bin/sh\nexec /usr/bin/etcd "$@"\n')
  t.equal(whyNoEtcd(program), undefined)
})

t.test('etcd ends with its agent, however that ends, and has no capability', async (t) => {
  const settings = await settingsOf(t)
  const ns = netnsNamed(t, here ?? '')
  const module = join(import.meta.dirname, '..', 'etcd', 'child.js')
  const agent = ns.spawn(process.execPath, ['--input-type=module', '-e', STARTER, module, JSON.stringify(settings)])
  const pid = Number(await new Promise((resolve) => agent.stdout?.once('data', (bytes) => resolve(String(bytes)))))
  await until(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('/usr/bin/etcd'), 'it runs')
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  t.match(status, /^CapEff:\s+0+$/m)
  t.match(status, /^NoNewPrivs:\s+1$/m)
  t.same(readFileSync(`/proc/${pid}/environ`, 'utf8').includes('ETCD_'), false)
  agent.kill('SIGKILL')
  await until(() => !alive(pid), 'it is gone')
})

t.test('one that was left behind is ended before the next', async (t) => {
  const { settings, session } = await startBare(t)
  const left = session.pid()
  process.kill(left, 'SIGSTOP')
  const child = await startEtcd({ ...settings, state: 'existing' }, () => {})
  t.teardown(() => child.stop())
  t.notOk(alive(left))
  t.ok(alive(child.pid))
  const { code } = await child.stop()
  t.equal(code, null, 'asked to end it ends by the signal')
})

t.test('what runs on data of the same name in another place is left alone', async (t) => {
  const { dataDir } = await settingsOf(t)
  const run = 'echo up; while :; do sleep 1; done'
  const elsewhere = `mount -t tmpfs none ${dirname(dirname(dataDir))} && mkdir -p ${dataDir} && ${run}`
  const other = spawn('unshare', ['-m', 'sh', '-c', elsewhere, `--data-dir=${dataDir}`])
  t.teardown(() => other.kill('SIGKILL'))
  await new Promise((resolve) => other.stdout.once('data', resolve))
  await endLeft(dataDir)
  t.ok(alive(other.pid ?? 0))
  mkdirSync(dataDir, { recursive: true })
  const own = spawn('sh', ['-c', run, `--data-dir=${dataDir}`])
  t.teardown(() => own.kill('SIGKILL'))
  await new Promise((resolve) => own.stdout.once('data', resolve))
  await endLeft(dataDir)
  t.notOk(alive(own.pid ?? 0), 'control: one of this place is ended')
})

t.test('an etcd that cannot be started is an end that is told, and closing waits for nothing', async (t) => {
  const settings = await settingsOf(t, { node: 'not a node id' })
  const told: EtcdExit[] = []
  const session = await openSession(settings, { log() {}, ended: (exit) => void told.push(exit), removed() {} })
  await until(() => told.length > 1, 'it is tried again')
  t.match(session.lastExit(), { code: 1, said: /not a node id/ })
  await session.close()
})

t.test('what is secret is for root alone, and no free text reaches the command line', async (t) => {
  const settings = await settingsOf(t)
  for (const file of ['key.pem', 'cert.pem', 'ca.pem']) {
    t.equal(statSync(join(settings.certificateDir, file)).mode & 0o777, 0o600, file)
  }
  await t.rejects(
    startEtcd({ ...settings, node: 'a,b=https://elsewhere' }, () => {}),
    /not a node id/,
  )
  t.ok(etcdArguments({ ...settings, address: 'fd00::1' }).includes('--listen-peer-urls=https://[fd00::1]:7074'))
})
