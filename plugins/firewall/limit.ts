/** How many rules there may be on this node. */
import type { Config } from '../../core/config.ts'
import type { Plane } from '../../dataplane/plane.ts'

export interface Limit {
  rules: number
  /** Why it is not `max_rules`. */
  why?: string
}

/** At this number a new connection that no rule decides costs about 0.3 ms in nft, which compares rule by rule. */
const MOST_IN_NFT = 16_384
const WHY = 'nft compares rule by rule here; more need the eBPF classifier, see stratumctl service status'

/** `max_rules`, and no more than nft can carry where it judges. */
export function rulesLimit({ config, plane }: { config: Config; plane: Pick<Plane, 'filter'> }): Limit {
  const rules = config.int('max_rules')
  return plane.filter.accelerated || rules <= MOST_IN_NFT ? { rules } : { rules: MOST_IN_NFT, why: WHY }
}
