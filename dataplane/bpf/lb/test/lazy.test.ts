/** What is not loaded: nothing to observe, nothing to take away, and a first virtual address that may be refused. */
import t from 'tap'
import { KernelRefusal } from '../../../plane.ts'
import { balancerDriver, type DriverParts } from '../driver.ts'
import { vip } from './lab.ts'

const refusing: DriverParts = {
  standing: async () => undefined,
  ready: () => Promise.reject(new KernelRefusal('the verifier says no')),
  settled: () => t.fail('nothing has been brought anywhere'),
  prepare: () => t.fail('there is nothing to prepare for'),
  close: async () => {},
}

t.test('without the programs there is nothing, and what goes is gone already', async (t) => {
  const driver = balancerDriver(refusing)
  t.same(await driver.observe(), [])
  const undo = await driver.apply([{ before: vip() }])
  await t.rejects(Promise.resolve(undo?.()), { message: 'the verifier says no' }, 'taking it back needs them')
})

t.test('a kernel that refuses them refuses the change', async (t) => {
  await t.rejects(balancerDriver(refusing).apply([{ after: vip() }]), KernelRefusal)
})
