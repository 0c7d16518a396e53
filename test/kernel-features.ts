/**
 * What a kernel may lack, tried in a namespace that is gone at once. A test that needs it is skipped with the reason, but
 * never in the machine of scripts/test-vm.ts: there a lack is a failure, so that its run cannot pass by proving nothing.
 */
import { spawnSync } from 'node:child_process'
import type { Test } from 'tap'

const TRIALS = {
  bonding: 'ip link add bond1 type bond',
  '8021q': 'ip link add br1 type bridge && ip link add link br1 name vlan5 type vlan id 5',
  vlan_filtering: 'ip link add br1 type bridge vlan_filtering 1',
  bridge_meta: "nft 'add table bridge t; add chain bridge t c; add rule bridge t c meta ibrname br drop'",
  flowtable: "nft 'add table inet t; add flowtable inet t f { hook ingress priority 0; devices = { lo }; }'",
} as const
export type KernelFeature = keyof typeof TRIALS
export const KERNEL_FEATURES = Object.keys(TRIALS) as KernelFeature[]

/** Set in the machine. */
export const inMachine = process.env.STRATUM_TEST_MACHINE === '1'

/** How many times longer than usual a test waits: an emulated processor is slow. */
export const PATIENCE = Number(process.env.STRATUM_TEST_PATIENCE ?? 1)

/** The kernel's words; undefined when it has the feature. */
export function whyLacking(feature: KernelFeature): string | undefined {
  const { status, stderr } = spawnSync('unshare', ['--net', 'sh', '-c', TRIALS[feature]], { encoding: 'utf8' })
  return status === 0 ? undefined : stderr.trim().split('\n')[0] || 'cannot be tried'
}

/** False when the kernel lacks one of `features`: `if (!requireFeatures(t, 'bonding')) return`. */
export function requireFeatures(t: Pick<Test, 'plan' | 'fail' | 'name'>, ...features: KernelFeature[]): boolean {
  for (const feature of features) {
    const why = whyLacking(feature)
    if (why === undefined) continue
    const reason = `this kernel lacks ${feature}: ${why}`
    if (inMachine) t.fail(reason)
    else t.plan(0, reason)
    if (t.name === 'TAP') process.exit(inMachine ? 1 : 0)
    return false
  }
  return true
}
