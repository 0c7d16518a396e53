/** Daily windows as this node's libnftables takes them, and as the kernel keeps them. */
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { openNft } from '../../../dataplane/nft/session.ts'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { parseSchedule, scheduleHolds, scheduleText } from '../schedule.ts'

const TIMES = ['00:00', '00:01', '06:00', '12:00', '18:00', '22:00', '23:59']
const WINDOWS = TIMES.flatMap((from) =>
  TIMES.filter((to) => to !== from).map((to) => parseSchedule({ from, to, daily: true })),
).map((schedule) => ({ schedule, name: `${schedule.scheduleFrom} to ${schedule.scheduleTo}` }))

/** Names of the windows that hold, by our own account. */
const holding = (at: Date) => WINDOWS.flatMap(({ name, schedule }) => (scheduleHolds(schedule, at) ? [name] : []))

const nft = (...words: string[]) => execFileSync('nft', words, { encoding: 'utf8' })

/** Those of which the rule has counted a packet that is sent now. */
function counting(): string[] {
  nft('reset', 'counters')
  execFileSync('ping', ['-qc1', '-w10', '127.0.0.1'])
  const counters = nft('list', 'counters').matchAll(/counter w(\d+) \{\s*packets (\d+)/g)
  const counted = new Set(Array.from(counters, ([, at, packets]) => (packets === '0' ? -1 : Number(at))))
  return WINDOWS.flatMap(({ name }, at) => (counted.has(at) ? [name] : []))
}

if (requireRoot(t) && here !== undefined)
  t.test('D70 a daily window holds in nft when it should, one over midnight too', async (t) => {
    const { run, close } = await openNft()
    t.teardown(close)
    await run('add table inet windows\nadd chain inet windows out { type filter hook output priority 0; }\n')
    for (const [at, { schedule, name }] of WINDOWS.entries()) {
      const rule = `add rule inet windows out ${scheduleText(schedule)} counter name w${at}\n`
      await t.resolves(run(`add counter inet windows w${at}\n${rule}`), `${name} is taken`)
    }
    // A second that begins or ends a window may pass meanwhile.
    for (;;) {
      const before = holding(new Date())
      const found = counting()
      if (holding(new Date()).join() !== before.join()) continue
      t.same(found, before)
      break
    }
  })
