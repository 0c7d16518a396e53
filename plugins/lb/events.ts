import { Type } from 'typebox'
import { StringEnum } from '../../core/schemas.ts'
import { Backend, LoadBalancer } from './schemas.ts'

const named = { vip_id: Type.String(), backend_id: Type.String() }
const Health = StringEnum(['healthy', 'unhealthy'])

/** Event type → its data. */
export const events = {
  'vip.created': LoadBalancer,
  'vip.deleted': Type.Object({ id: Type.String() }),
  'backend.added': Type.Object({ ...named, backend: Backend }),
  'backend.removed': Type.Object(named),
  'backend.state_changed': Type.Object({ ...named, from: Health, to: Health }),
}
