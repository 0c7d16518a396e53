/** What the process may do once it serves, as the kernel tells it, thread by thread. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { requireRoot } from '../../../test/netns.ts'
import { endResponder } from '../../../test/responder.ts'
import { openResponder } from '../driver.ts'
import { dnsZone } from '../entries.ts'

requireRoot(t)

const SOA = 'ns1.example.org. hostmaster.example.org. 2026010101 3600 600 604800 300'
const zone = dnsZone('dns', { name: 'example.org.', soa: SOA, soaTtl: 300 })
const [NOBODY, NONE, NET_RAW_AND_LOW_PORTS] = ['65534', '0000000000000000', '0000000000002400']

t.test('it runs under an account of its own, and no thread can do more than it needs', async (t) => {
  const path = join(scratch(t), 'responder.sock')
  t.teardown(() => endResponder(path))
  const driver = await openResponder({ path, onProblem() {}, onLoss() {} })
  t.teardown(() => driver.close())
  await driver.apply([{ after: zone }])
  const pid = driver.pid() ?? 0
  const threads = readdirSync(`/proc/${pid}/task`)
  t.ok(threads.length > 1)
  for (const thread of threads) {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')
    const field = (name: string) =>
      new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*$`, 'm').exec(status)?.[1]?.split(/\s+/) ?? []
    const [uids, gids] = [new Set(field('Uid')), new Set(field('Gid'))]
    t.notOk(uids.has('0') || uids.has(NOBODY) || gids.has('0') || gids.has(NOBODY), `${[...uids]} ${[...gids]}`)
    t.same([uids.size, gids.size, field('Groups').join('')], [1, 1, ''])
    t.same([field('NoNewPrivs'), field('Seccomp')], [['1'], ['2']])
    t.same([field('CapBnd'), field('CapAmb')], [[NONE], [NONE]])
    const most = thread === String(pid) ? NET_RAW_AND_LOW_PORTS : NONE
    t.same([field('CapPrm'), field('CapEff')], [[most], [most]], 'the first thread alone binds sockets')
  }
  t.match(readlinkSync(`/proc/${pid}/cwd`), / \(deleted\)$/, 'its directory is empty for good')
  t.same(
    readdirSync(dirname(path)).filter((name) => name.startsWith('nowhere')),
    [],
  )
  const kill = spawnSync('setpriv', ['--reuid', NOBODY, '--clear-groups', 'kill', '-STOP', String(pid)])
  t.not(kill.status, 0, 'a process of nobody may not stop it')
  t.equal((await driver.observe([])).length, 1)
})

t.test(
  'signals by which root asks other programs for something neither end it nor start a debugger in it',
  async (t) => {
    const path = join(scratch(t), 'responder.sock')
    t.teardown(() => endResponder(path))
    const lost: unknown[] = []
    const driver = await openResponder({ path, onProblem() {}, onLoss: () => void lost.push('lost') })
    t.teardown(() => driver.close())
    await driver.apply([{ after: zone }])
    const pid = driver.pid() ?? 0
    const threads = readdirSync(`/proc/${pid}/task`).length
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGPIPE', 'SIGUSR1'] as const) {
      process.kill(pid, signal)
      t.equal((await driver.observe([])).length, 1, signal)
    }
    t.same([driver.pid(), readdirSync(`/proc/${pid}/task`).length, lost], [pid, threads, []])
  },
)
