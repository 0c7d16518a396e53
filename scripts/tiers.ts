/** What `npm run test:kernels` runs, and on which kernels of scripts/kernels.ts. */

export interface Tier {
  /** Names of lines. */
  kernels: readonly string[]
  /** Loads what a plain Debian has not loaded and a rig of a test needs; the agent loads nothing. */
  modules: boolean
  /** Below build. */
  files: readonly string[]
}

export const TIERS: Readonly<Record<string, Tier>> = {
  /** All programs pass the verifier. */
  verify: {
    kernels: ['6.1', '6.12', '6.18', 'newest', '6.12-arm64'],
    modules: false,
    files: ['dataplane/bpf/test/verify.js'],
  },
  /** On a machine as Debian starts it: the package from its installation to its removal; bonds; ports are shut. */
  start: {
    kernels: ['6.1', '6.12', 'newest'],
    modules: false,
    files: [
      'test/kernel-features.test.js',
      'test/package/platform.test.js',
      'plugins/l2/test/bond.test.js',
      'dataplane/bpf/port/test/shut.test.js',
    ],
  },
  /** Of `packets` what a processor of another architecture, emulated, is through with in ten minutes. */
  frames: {
    kernels: ['6.12-arm64'],
    modules: true,
    files: [
      'dataplane/bpf/firewall/test/verdict.test.js',
      'dataplane/bpf/lb/test/balance.test.js',
      'dataplane/bpf/port/test/hook.test.js',
    ],
  },
  packets: {
    kernels: ['6.12', 'newest'],
    modules: true,
    files: [
      ...['verdict', 'links', 'remains'].map((name) => `dataplane/bpf/firewall/test/${name}.test.js`),
      ...['balance', 'frames', 'fallback', 'firewall'].map((name) => `dataplane/bpf/lb/test/${name}.test.js`),
      ...['hook', 'frames'].map((name) => `dataplane/bpf/port/test/${name}.test.js`),
      'plugins/vlan/test/packets.test.js',
      'plugins/firewall/test/packets-order.test.js',
    ],
  },
}
