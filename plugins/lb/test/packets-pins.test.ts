/** Virtual addresses balance after somebody has deleted the agent's pins and something was changed. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { WIPES, wipe } from '../../../test/pins.ts'
import { lab, tallied } from './lab.ts'

requireRoot(t)

const { node, ask, serve, join, leave, drop, open } = await lab(t, 2)

for (const what of WIPES) {
  t.test(`after ${what} among the pins was deleted`, async (t) => {
    wipe(node, what)
    await serve(1)
    t.same(tallied(await ask(2)), { b1: 2 }, 'a first virtual address balances')
    const held = await open()
    wipe(node, what)
    await join('web', 2)
    t.same(tallied(await ask(4)), { b1: 2, b2: 2 }, 'a backend has its share')
    t.ok(await held.lives(), 'a connection that stood goes on')
    wipe(node, what)
    await leave('web', 2)
    t.same(tallied(await ask(2)), { b1: 2 }, 'or none any more')
    await held.close()
    await drop('web')
  })
}
