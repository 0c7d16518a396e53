/** What the environment of the agent says, and what it is told when it is misspelt. */
import t from 'tap'
import { allowedFrom, placesFrom } from '../environment.ts'

t.test('eBPF is used unless it is switched off, and another word is refused', async (t) => {
  for (const word of [undefined, '', 'on']) {
    const allowed = allowedFrom({ STRATUM_CLASSIFIER: word, STRATUM_BALANCER: word })
    t.same(allowed, { classifier: true, balancer: true })
  }
  t.same(allowedFrom({ STRATUM_CLASSIFIER: 'off' }), { classifier: false, balancer: true })
  t.same(allowedFrom({ STRATUM_BALANCER: 'off' }), { classifier: true, balancer: false })
  t.throws(() => allowedFrom({ STRATUM_BALANCER: '0' }), { message: 'STRATUM_BALANCER must be on or off' })
})

t.test('places have their defaults', async (t) => {
  t.match(placesFrom({ STRATUM_STATE_DIR: '/a' }), { stateDir: '/a', runDir: '/run/stratum' })
})
