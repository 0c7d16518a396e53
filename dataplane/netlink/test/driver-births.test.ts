/** Links that are being made, in a network namespace of this file. */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { link } from '../entries.ts'
import { added, ip, openDriver, quiet, removed } from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

function all() {
  quiet()

  t.test('the ends of a pair are told apart, whatever number they are born with', async (t) => {
    const driver = await openDriver(t)
    const draw = (randomInt: unknown) => {
      Object.assign(crypto, { randomInt })
      syncBuiltinESMExports()
    }
    const { randomInt } = crypto
    t.teardown(() => draw(randomInt))
    for (const number of [(most: number) => most - 1, () => 0, () => 1]) {
      draw(number)
      const pair = link('x', { name: 'born0', device: { type: 'veth', peer: 'born1' } })
      await driver.apply(added(pair))
      t.match(JSON.parse(ip('-j', 'link', 'show', 'born0')), [{ ifalias: 'stratum:x' }])
      t.match(JSON.parse(ip('-j', 'link', 'show', 'born1')), [{ ifalias: 'stratum:x peer' }])
      await driver.apply(removed(pair))
    }
  })
}
