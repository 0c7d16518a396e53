/** What all members of a cluster hold of floating IPs: all of them. To its own node each is nameless, to the others it is not. */
import type { Collection } from '../../core/replication.ts'
import { addressRef } from './desired.ts'
import { queries } from './queries.ts'
import { floatingIpCreated, floatingIpDeleted, remember } from './rules.ts'

const addresses: Collection = {
  name: 'float_addresses',
  key: ['id'],
  columns: ['id', 'ip', 'primary', 'standby', 'created_at'],
  unique: [['ip']],
  outward: (row, self) => (row.primary === '' ? { ...row, primary: self } : row),
  inward: (row, self) => (row.primary === self ? { ...row, primary: '' } : row),
  follow(tx, before, after, { self, config }) {
    const id = String((after ?? before)?.id)
    const row = queries(tx).one.get({ id })
    const uplink = config.text('uplink')
    // As when it is added here: the place outlives the uplink.
    if (row?.primary === '' && uplink !== '') remember(tx, uplink)
    return {
      touch: [addressRef(id)],
      events: [...(before ? [floatingIpDeleted(id)] : []), ...(row ? [floatingIpCreated(row, self)] : [])],
    }
  },
}

export const replicates = [addresses]
