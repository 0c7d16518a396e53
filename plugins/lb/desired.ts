/** Rows → entries, by who balances on this node: the programs, or nft (translated.ts). Pure. */
import type { DesiredBy, Ref } from '../../core/area.ts'
import { AREA, renders, vipEntry } from './rendering.ts'
import { translated } from './translated.ts'

export const vipRef = (id: string): Ref => ({ area: AREA, id: `vip/${id}` })
export const addressRef = (ip: string): Ref => ({ area: AREA, id: `address/${ip}` })

const accelerated = renders([], (db, row) => [vipEntry(db, row)])

export const desired: DesiredBy = (kinds) => (kinds.has('vip') ? accelerated : translated)
