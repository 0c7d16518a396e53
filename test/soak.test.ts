/** The soak (`npm run soak`) for some seconds: a kill, another's hand in our objects, a reboot, a restart and an upgrade. */
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
    const { broken, counts, crossed, items } = await soak(SEED, 0, (line) => t.comment(line), [
      'kill',
      'meddle',
      'reboot',
      'restart',
      'upgrade',
    ])
    t.equal(broken, undefined)
    if (broken !== undefined) t.comment(JSON.stringify(items))
    t.same([...crossed.keys()].sort(), ['kill', 'restart', 'upgrade'])
    for (const [what, { sent, lost }] of crossed)
      t.ok(sent > 100 && lost === 0, `${what}: ${sent} packets, ${lost} lost`)
    for (const [name, { sent, received }] of counts) {
      t.ok(sent > 500, `${sent} packets by ${name}`)
      t.equal(received, sent, 'none lost')
    }
  },
)
