/** What floating IPs offer to other areas: which addresses they are. */
import type { Db } from '../../core/area.ts'
import { queries } from './queries.ts'

/** Whether an address, canonical, is a floating one, whichever node has it now. */
export const isFloating = (db: Db, ip: string): boolean => queries(db).withIp.get({ ip }) !== undefined
