/** Three agents that are a cluster, with all that disturbs them and all that must not be disturbed. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { scratch } from '../build.ts'
import { type BedOptions, type ClusterBed, type ClusterNode, succeeded, threeAgents } from '../cluster.ts'
import type { Scope } from '../netns.ts'
import { type Relay, relay } from './relay.ts'
import { type Traffic, traffic } from './traffic.ts'
import { VNI } from './writers.ts'

/** etcd makes files of 64 MiB ahead. */
const STATE_BYTES = '400m'
const CLOCK_AGENT = fileURLToPath(new URL('clock-agent.js', import.meta.url))

export interface World extends ClusterBed {
  relay: Relay
  traffics: readonly Traffic[]
  /** How many ms the agent's clock is ahead. */
  setClock(node: ClusterNode, ms: number): void
  /** Takes all the space that is left where the node keeps its state. */
  fill(node: ClusterNode): void
  unfill(node: ClusterNode): void
}

/** With three members, unless `open` makes other nodes. */
export async function openWorld(
  t: Scope,
  open: (t: Scope, options: BedOptions) => Promise<ClusterBed> = threeAgents,
): Promise<World> {
  const clock = scratch(t)
  const bed = await open(t, extras(t, clock))
  const traffics: Traffic[] = []
  for (const node of bed.nodes) {
    traffics.push(await traffic(t, node))
    succeeded(await node.agent.call('POST', '/api/v1/vxlan/networks', { vni: VNI }))
  }
  const filler = (node: ClusterNode) => join(node.agent.stateDir, 'filler')
  return {
    ...bed,
    relay: relay(t, bed.wire),
    traffics,
    setClock({ agent }, ms) {
      writeFileSync(join(clock, 'clock'), String(ms))
      agent.child.kill('SIGUSR2')
    },
    fill(node) {
      try {
        execFileSync('dd', ['if=/dev/zero', `of=${filler(node)}`, 'bs=64k'], { stdio: 'ignore' })
      } catch {
        // It ends when there is no more.
      }
    },
    unfill: (node) => void execFileSync('rm', ['-f', filler(node)]),
  }
}

/** A small file system for the state of each node, and a clock that can be set. */
function extras(t: Scope, clock: string): BedOptions {
  writeFileSync(join(clock, 'clock'), '0')
  return {
    main: CLOCK_AGENT,
    env: { TEST_CLOCK: join(clock, 'clock') },
    stateDirOf() {
      const dir = scratch(t)
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${STATE_BYTES}`, 'tmpfs', dir])
      t.teardown(() => void execFileSync('umount', ['-l', dir]))
      return dir
    },
  }
}

/** The etcd of a node; undefined when none runs. */
export function etcdOf({ agent }: Pick<ClusterNode, 'agent'>): number | undefined {
  const mark = `--data-dir=${join(agent.stateDir, 'etcd')}`
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(mark)) return Number(pid)
    } catch {
      // It has ended meanwhile.
    }
  }
  return undefined
}
