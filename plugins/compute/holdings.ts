/** What the registry keeps for tenants: a machine all of whose NICs are a tenant's goes with that tenant. */

import { inSlices } from '../../core/slices.ts'
import type { Holdings } from '../../core/tenancy.ts'
import { nicsOf } from '../networks/offers.ts'
import { machinesOfTenant } from './offers.ts'
import { queries } from './queries.ts'

export const holdings: Holdings = {
  uses: {},
  /** The NICs themselves go with their networks, which tell of it. */
  async remove(tx, tenant) {
    await inSlices(machinesOfTenant(tx, tenant), ({ name, networks }) => {
      if (nicsOf(tx, name).length === networks.length) queries(tx).remove.run({ name })
    })
    return { touch: [], events: [] }
  },
}
