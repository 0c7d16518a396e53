import { Type } from 'typebox'
import { FloatingIp } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'floating_ip.created': FloatingIp,
  'floating_ip.deleted': Type.Object({ id: Type.String() }),
}
