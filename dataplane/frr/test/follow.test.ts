/** The moves of the sessions of a real bgpd, as they are heard; and what is done about those that were not. */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import '../../../test/inside.ts'
import { scratch } from '../../../test/build.ts'
import { whyNoBgp } from '../../../test/frr.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import type { SessionSeen } from '../bgp.ts'
import { openFollower } from '../follow.ts'
import { endDaemon, startDaemon } from '../session.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp()

const A = '10.7.0.2'
const OPEN = ['configure terminal', 'router bgp 65001', 'bgp router-id 10.7.0.1']

async function followed(t: Scope) {
  const dir = scratch(t)
  chmodSync(dir, 0o711)
  const places = { binDir: '/usr/lib/frr', runDir: join(dir, 'frr') }
  t.teardown(() => endDaemon(places, 'bgpd'))
  const vty = await startDaemon(places, 'bgpd')
  t.teardown(() => vty.close())
  const problems: Error[] = []
  const follower = openFollower(`${places.runDir}/bgpd.vty`, (error) => problems.push(error))
  t.teardown(() => follower.end())
  const heard: (SessionSeen | 'whole')[] = []
  let wake = () => {}
  follower.follow((seen, whole) => {
    if (whole) heard.push('whole')
    heard.push(...seen)
    wake()
  })
  /** Resolves when what was heard is as `enough` says. */
  const until = async (enough: () => boolean) => {
    while (!enough())
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }
  await follower.begin(vty)
  return { places, vty, follower, heard, problems, until }
}
const states = (heard: readonly (SessionSeen | 'whole')[]) => heard.map((it) => (it === 'whole' ? it : it.state))

t.test('from the first one on, and nothing of it is configured', { skip }, async (t) => {
  const { vty, follower, heard, problems, until } = await followed(t)
  const since = Date.now()
  await vty.run([...OPEN, `neighbor ${A} remote-as 65002`, 'end'])
  await until(() => heard.length > 1)
  const [whole, first] = heard
  t.equal(whole, 'whole')
  t.match(first, { address: A, state: /^(Connect|Active)$/ })
  t.ok(first !== 'whole' && first && first.at >= since - 1 && first.at <= Date.now())
  t.equal(follower.follows(), true)
  t.notMatch((await vty.run(['show running-config']))[0]?.text, /debug/)
  await vty.run([...OPEN, `no neighbor ${A}`, 'end'])
  await until(() => states(heard).at(-1) === 'Idle')
  follower.end()
  t.equal(follower.follows(), false)
  t.equal(follower.state(A), undefined)
  t.same(problems, [])
})

t.test('what bgpd could not tell is noticed, and all are told anew', { skip }, async (t) => {
  const { vty, heard, until } = await followed(t)
  await vty.run([...OPEN, `neighbor ${A} remote-as 65002`, 'end'])
  await until(() => heard.length > 1)
  const before = heard.length
  // More than the log's socket holds, and no more than the commands' does, while nobody takes of either.
  const flood = vty.run(Array.from({ length: 60 }, (_, at) => `logmsg debugging ${at} ${'x'.repeat(3000)}`))
  await new Promise(setImmediate)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000)
  await flood
  await until(() => states(heard.slice(before)).includes('whole'))
  t.match(heard.slice(heard.lastIndexOf('whole')), ['whole', { address: A }])
})

t.test('begun again all are told anew, and a log that is refused is said so', { skip }, async (t) => {
  const { places, vty, follower, heard, until } = await followed(t)
  await until(() => heard.length > 0)
  const before = heard.length
  await follower.begin(vty)
  await until(() => heard.length > before)
  t.equal(follower.follows(), true)
  const problems: Error[] = []
  const elsewhere = openFollower(`${places.runDir}/nobody.vty`, (error) => problems.push(error))
  t.teardown(() => elsewhere.end())
  await elsewhere.begin(vty)
  t.match(problems, [{ message: /^not every move of a BGP session is told: / }])
  t.equal(elsewhere.follows(), false)
})
