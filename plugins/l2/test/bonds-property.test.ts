/** Bonds and members: what changes leave, refused ones among them, is what all of the store renders to. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { bonds } from './bonds-area.ts'

t.test('any sequence of changes leaves the kernel with what the store says', async (t) => {
  const { call, plane, agent, ours } = await bonds(t)
  const id = fc.constantFrom('a', 'b', 'c')
  const name = fc.constantFrom('eth1', 'eth2', 'eth3')
  const step = fc.oneof(
    fc.record({ id, name: fc.constantFrom('bond0', 'bond1'), mode: fc.constantFrom('active-backup', '802.3ad') }),
    fc.record({ id, remove: fc.constant(true) }),
    fc.record({ id, add: name }),
    fc.record({ id, drop: name }),
    fc.record({ id, mtu: fc.integer({ min: 576, max: 9216 }) }),
  )
  const carryOut = (it: Record<string, unknown>) => {
    const path = `/api/v1/bonds/${it.id}`
    if ('mode' in it) return call('POST', '/api/v1/bonds', it)
    if ('remove' in it) return call('DELETE', path)
    if ('add' in it) return call('POST', `${path}/members?force=1`, { interface: it.add })
    if ('drop' in it) return call('DELETE', `${path}/members/${it.drop}`)
    return call('PUT', `${path}/mtu`, { mtu: it.mtu })
  }
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(step, fc.boolean()), { maxLength: 25 }), async (steps) => {
      for (const [one, refuse] of steps) {
        const before = JSON.stringify(ours())
        plane.refuse = refuse ? new KernelRefusal('not now') : undefined
        const { status } = await carryOut(one)
        plane.refuse = undefined
        if (status >= 500) throw new Error(`${JSON.stringify(one)}: ${status}`)
        if (status >= 400 && JSON.stringify(ours()) !== before) throw new Error('a refusal changed something')
        const wanted = [...desired.all(agent.store.read, agent.config)].filter(({ key }) => /bond|member/.test(key))
        const byKey = (entries: { key: string }[]) =>
          JSON.stringify(entries.toSorted((a, b) => (a.key < b.key ? -1 : 1)))
        if (byKey(ours()) !== byKey(wanted)) throw new Error(`${byKey(ours())} is not ${byKey(wanted)}`)
      }
    }),
    { numRuns: 30 },
  )
  t.pass('held after each')
})
