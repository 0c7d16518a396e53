/**
 * Who judges the packets of a test: the eBPF classifier, or nft rule by rule. The same tests hold for both: `X.test.ts` is
 * run with the classifier, `X.nft.test.ts` is the same file without it.
 */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { RunningAgent } from '../../../test/agent.ts'
import { type Netns, requireRoot } from '../../../test/netns.ts'
import { chains, table, walk } from './kernel.ts'

export type Lane = 'classifier' | 'nft'
export const LANES: readonly Lane[] = ['classifier', 'nft']

/** The lane of this process. */
export const lane: Lane = process.env.STRATUM_CLASSIFIER === 'off' ? 'nft' : 'classifier'

/** Environment for an agent of this lane. */
export const laneEnv = { STRATUM_CLASSIFIER: lane === 'nft' ? 'off' : 'on' }

/** A test of this lane, which its title names. */
export const judged = (title: string, work: (t: Test) => Promise<unknown>) => t.test(`${title} (${lane})`, work)

/** Skips the file where the lane cannot be: without privilege, or on a kernel without a place for the classifier. */
export function requireLane(t: Pick<Test, 'plan' | 'name'>): void {
  if (!requireRoot(t) || lane === 'nft') return
  const trial = join(import.meta.dirname, 'try-classifier.js')
  const { status, stderr } = spawnSync('unshare', ['--net', process.execPath, trial], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  })
  if (status === 0) return
  t.plan(0, `no eBPF classifier on this kernel: ${stderr.trim().split('\n').at(-1)}`)
  process.exit(0)
}

/** A chain of ours that packets meet, for those who meddle with it; and the key by which the agent calls it. */
export const MET = lane === 'nft' ? 'firewall_rules' : 'firewall'
/** Where the failsafes of a default deny stand. */
export const SPARING = lane === 'nft' ? 'firewall_default' : 'firewall_spared'

/** Takes away what a reboot takes away. */
export function forget(router: Netns): void {
  router.run('nft', 'delete', 'table', 'inet', 'stratum')
  if (lane === 'classifier') rmSync(`/sys/fs/bpf/${router.name}`, { recursive: true, force: true })
}

/** How many rules whoever judges holds. */
export async function held(router: Netns, agent: RunningAgent): Promise<number> {
  if (lane === 'nft') {
    if (!router.run('nft', 'list', 'tables').includes('table inet stratum')) return 0
    return [...walk(chains(table(router)), 'firewall_rules')].length
  }
  const { rules } = (await agent.call('GET', '/control/v1/firewall/rules?counters=true')).body
  return (rules as { packets?: number }[]).filter(({ packets }) => packets !== undefined).length
}
