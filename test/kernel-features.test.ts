/** What the kernel of this machine has, so that no run of tests passes by skipping without saying so. */
import t from 'tap'
import { KERNEL_FEATURES, requireFeatures } from './kernel-features.ts'
import { requireRoot } from './netns.ts'

requireRoot(t)

for (const feature of KERNEL_FEATURES) {
  t.test(`the kernel has ${feature}`, async (t) => {
    if (requireFeatures(t, feature)) t.pass('tried')
  })
}
