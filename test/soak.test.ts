/** The soak (`npm run soak`) for some seconds: a kill, another's hand in our objects, a reboot and a restart. */
import t from 'tap'
import { requireRoot } from './netns.ts'
import { SEED } from './seed.ts'
import { soak } from './soak/run.ts'

requireRoot(t)

t.test(
  'state-01 state-04 persist-02 whatever befalls the agent, model, store and kernel are one and no packet is lost',
  { timeout: 200_000 },
  async (t) => {
    t.comment(`SEED=${SEED}`)
    const { broken, counts, items } = await soak(SEED, 0, (line) => t.comment(line), [
      'kill',
      'meddle',
      'reboot',
      'restart',
    ])
    t.equal(broken, undefined)
    if (broken !== undefined) t.comment(JSON.stringify(items))
    for (const [name, { sent, received }] of counts) {
      t.ok(sent > 500, `${sent} packets by ${name}`)
      t.equal(received, sent, 'none lost')
    }
  },
)
