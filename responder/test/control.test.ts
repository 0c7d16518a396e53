import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { readLines, writeLine } from '../../dataplane/responder/lines.ts'
import { type LeaseNews, PORTION } from '../../dataplane/responder/protocol.ts'
import { findResponder } from '../../dataplane/responder/session.ts'
import { scratch } from '../../test/build.ts'
import type { Scope } from '../../test/netns.ts'
import { type Control, openControl } from '../control.ts'
import { openHolding } from '../holding.ts'
import { openLeaseBuffer } from '../leases.ts'

const NOTHING = { apply() {}, applyListeners: async () => {}, close: async () => {} }

async function setUp(t: Scope, path = join(scratch(t), 'responder.sock')) {
  const leases = openLeaseBuffer()
  const parts = { path, build: 'x', leases, holding: openHolding({ dns: NOTHING, dhcp: NOTHING }) }
  const control: Control = await openControl({ ...parts, release: async () => {}, stop() {} })
  t.teardown(() => control.close())
  const lease = (n: number, hostname = '') => {
    const address = `10.0.${n >> 8}.${n & 255}`
    leases.add({ net: 1, address, mac: '02:ce:0a:00:00:01', hostname, state: 'active', expiresAt: 1, at: 1 })
    control.leasesCame()
  }
  return { path, leases, control, lease }
}

/** An agent that hears of leases, in the portions in which they come. */
async function hearing(t: Scope, path: string) {
  const heard: LeaseNews[][] = []
  const session = await findResponder(path, {
    onLost() {},
    onWaiting() {},
    onProblem() {},
    onLeases: (news) => void heard.push(news),
  })
  if (session === undefined) throw new Error('nobody listens')
  t.teardown(() => session.close())
  return { session, heard }
}

async function until(is: () => boolean): Promise<void> {
  while (!is()) await wait(5)
}

t.test('what happened while no agent was there is told in portions, until it is stored', async (t) => {
  const { path, leases, lease } = await setUp(t)
  for (let n = 0; n < 2 * PORTION + 1; n++) lease(n)
  const first = await hearing(t, path)
  await until(() => first.heard.flat().length === 2 * PORTION + 1)
  t.ok(first.heard.every((news) => news.length <= PORTION))
  first.session.stored(PORTION)
  await first.session.ask({ do: 'digest' })
  t.equal(leases.all().length, PORTION + 1)
  const second = await hearing(t, path)
  await until(() => second.heard.flat().length === PORTION + 1)
  t.equal(second.heard[0]?.[0]?.seq, PORTION + 1, 'what is stored is not told again')
})

t.test('one address that changes all the time is told as it is then, not each time', async (t) => {
  const { path, lease } = await setUp(t)
  const { heard } = await hearing(t, path)
  for (let n = 0; n < 5000; n++) lease(1, `name${n}`)
  await until(() => heard.flat().some(({ hostname }) => hostname === 'name4999'))
  t.equal(heard.flat().length, 1)
})

t.test('a process whose place another has taken knows that nobody can find it', async (t) => {
  const { path, control } = await setUp(t)
  t.equal(control.isOrphan(), false)
  const { session } = await hearing(t, path)
  const successor = await setUp(t, path)
  t.equal(control.isOrphan(), false, 'its agent is there')
  session.close()
  await until(() => control.isOrphan())
  t.equal(successor.control.isOrphan(), false)
})

t.test('what waits is told before the answer, so that who has this knows', async (t) => {
  const { path } = await setUp(t)
  const socket = connect(path)
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  const heard: string[] = []
  const answered = new Promise<void>((resolve) => {
    readLines(socket, (document) => {
      heard.push(...Object.keys(document as object).filter((key) => key === 'waiting' || key === 'ok'))
      if (heard.length === 2) resolve()
    })
  })
  writeLine(socket, { id: 1, do: 'commit', patient: true })
  await answered
  t.same(heard, ['waiting', 'ok'])
})
