/** Rows → entries, by who judges on this node: the classifier (accelerated.ts) or nft, rule by rule (linear.ts). Pure. */
import type { DesiredBy } from '../../core/area.ts'
import { accelerated } from './accelerated.ts'
import { linear } from './linear.ts'

export const desired: DesiredBy = (kinds) => (kinds.has('filter') ? accelerated : linear)
