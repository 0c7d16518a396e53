/** What the environment of the agent says, and what it is told when it is misspelt. */
import t from 'tap'
import { mayClassify, placesFrom } from '../environment.ts'

t.test('the classifier is used unless it is switched off, and another word is refused', async (t) => {
  for (const STRATUM_CLASSIFIER of [undefined, '', 'on']) t.equal(mayClassify({ STRATUM_CLASSIFIER }), true)
  t.equal(mayClassify({ STRATUM_CLASSIFIER: 'off' }), false)
  t.throws(() => mayClassify({ STRATUM_CLASSIFIER: '0' }), { message: 'STRATUM_CLASSIFIER must be on or off' })
})

t.test('places have their defaults', async (t) => {
  t.match(placesFrom({ STRATUM_STATE_DIR: '/a' }), { stateDir: '/a', runDir: '/run/stratum' })
})
