/** What is heard of a device while it is being looked at counts more than what the look tells. */
import t from 'tap'
import { Payload } from '../../netlink/attribute.ts'
import { macBytes } from '../../netlink/inet.ts'
import { RTM_NEWLINK } from '../../netlink/link.ts'
import type { LinkDetail } from '../../netlink/link-detail.ts'
import type { Received } from '../../netlink/wire.ts'
import { type Announcer, openAnnouncer } from '../announcer.ts'

const MAC = '02:00:00:00:00:01'
const CLAIM = { key: 'a', link: 'eth0', address: '192.0.2.1/32' }

function notice(running: boolean): Received {
  const header = Buffer.alloc(16)
  header.writeInt32LE(2, 4)
  // IFF_UP, IFF_RUNNING
  header.writeUInt32LE(running ? 0x41 : 0x1, 8)
  const payload = new Payload().raw(header).text(3, 'eth0').bytes(1, macBytes(MAC)).finish()
  return { type: RTM_NEWLINK, flags: 0, sequence: 0, port: 0, payload } as Received
}

/** An announcer whose looks wait to be answered with a device without carrier, so that nothing is ever sent. */
function rig(t: { teardown(stop: () => void): void }) {
  const looks: (() => void)[] = []
  const waiting: (() => void)[] = []
  const without = { name: 'eth0', index: 2, mac: MAC, running: false } as LinkDetail
  const announcer: Announcer = openAnnouncer({
    look: () =>
      new Promise((resolve) => {
        looks.push(() => resolve([without]))
        waiting.shift()?.()
      }),
    onProblem: (error) => {
      throw error
    },
  })
  t.teardown(() => announcer.close())
  const look = async () => {
    if (looks.length === 0) await new Promise<void>((resolve) => waiting.push(resolve))
    return looks.shift() as () => void
  }
  return { announcer, look }
}

/** The timers of an announcer keep nobody alive. */
const alive = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(alive))

t.test('a carrier that comes during the first look is not missed', async (t) => {
  const { announcer, look } = rig(t)
  announcer.claim(CLAIM)
  const answer = await look()
  announcer.hear(notice(true))
  answer()
  t.ok(await look(), 'it is looked at again')
})

t.test('a carrier that comes later is not missed, whatever a look told meanwhile', async (t) => {
  const { announcer, look } = rig(t)
  announcer.claim(CLAIM)
  const first = await look()
  first()
  await new Promise(setImmediate)
  announcer.hear(notice(true))
  const second = await look()
  announcer.hear(notice(false))
  announcer.hear(notice(true))
  second()
  t.ok(await look())
})

t.test('a look that fails takes one round, and no more', async (t) => {
  const asked: string[] = []
  const problems: unknown[] = []
  const waiting: { names: number; resolve: () => void }[] = []
  const announcer = openAnnouncer({
    look: async (names) => {
      // A timer that is early finds nothing due.
      if (names.length === 0) return []
      asked.push(names.join())
      for (const one of waiting) if (asked.length >= one.names) one.resolve()
      throw new Error('made up')
    },
    onProblem: (error) => void problems.push(error),
  })
  t.teardown(() => announcer.close())
  const looks = (names: number) => new Promise<void>((resolve) => void waiting.push({ names, resolve }))
  announcer.claim(CLAIM)
  await looks(5)
  announcer.claim({ key: 'b', link: 'eth1', address: '192.0.2.2/32' })
  await looks(6)
  t.same(asked, ['eth0', 'eth0', 'eth0', 'eth0', 'eth0', 'eth1'], 'each of its five rounds, and then it is done')
  t.match(problems, [{ message: 'made up' }], 'and each is told')
})
