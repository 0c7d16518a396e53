/**
 * Where nft balances: the programs that an earlier agent attached are there and undesired, so the comparison of a start
 * takes them off. That comes last of all, because it cannot be put back: by then nft serves what they served.
 */
import type { Driver } from '../../plane.ts'
import type { Attaching } from '../attach/attaching.ts'
import { balancerAttached, keepTrace, removeBalancer } from './open.ts'

/** Stands for what is pinned; the load balancer is the area whose connections it carries. */
export interface LeftBalancer {
  kind: 'left_balancer'
  key: 'lb/left_balancer'
}

const LEFT: LeftBalancer = { kind: 'left_balancer', key: 'lb/left_balancer' }

/** `root`: where the agent pins. */
export const leftBalancer = (root: string, attaching?: Attaching): Driver => ({
  name: 'balancer',
  kinds: ['left_balancer'],
  observe: async () => ((await balancerAttached(root, attaching)) ? [LEFT] : []),
  async apply() {
    await removeBalancer(root, attaching)
    keepTrace(root)
    return async () => {
      throw new Error('programs that were taken off cannot be put back')
    }
  },
  close: async () => {},
})
