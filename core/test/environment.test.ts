/** What the environment of the agent says, and what it is told when it is misspelt. */
import t from 'tap'
import { allowedFrom, misspelt, placesFrom } from '../environment.ts'

t.test('eBPF is used unless it is switched off, and another word is told and ignored', async (t) => {
  for (const word of [undefined, '', 'on']) {
    const allowed = allowedFrom({ STRATUM_CLASSIFIER: word, STRATUM_BALANCER: word })
    t.same(allowed, { classifier: true, balancer: true })
  }
  t.same(allowedFrom({ STRATUM_CLASSIFIER: 'off' }), { classifier: false, balancer: true })
  t.same(allowedFrom({ STRATUM_BALANCER: 'off' }), { classifier: true, balancer: false })
  t.same(allowedFrom({ STRATUM_BALANCER: '0' }), { classifier: true, balancer: true })
  t.same(misspelt({ STRATUM_BALANCER: '0', STRATUM_CLASSIFIER: 'off' }), [
    'STRATUM_BALANCER is ignored: must be on or off; correct it and restart stratumd',
  ])
})

t.test('places have their defaults', async (t) => {
  t.match(placesFrom({ STRATUM_STATE_DIR: '/a' }), { stateDir: '/a', runDir: '/run/stratum' })
})
