/** What the programs on the workload ports have counted for a tenant. */
import type { Db } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { Ports } from '../../dataplane/bpf/port/open.ts'
import { bindingsOfTenant } from '../networks/offers.ts'

/** Bytes on the wire, both ways together, of everything that is attached now, since each was attached. */
export async function bytesOf(db: Db, ports: Pick<Ports, 'account'>, tenantId: string): Promise<number> {
  let bytes = 0n
  await inSlices(bindingsOfTenant(db, tenantId), (key) => {
    const account = ports.account(key)
    if (account !== undefined) bytes += account.upBytes + account.downBytes
  })
  return Number(bytes)
}
