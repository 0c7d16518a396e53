/**
 * What tenants' workloads have carried, by the slots of their bindings: networks of several tenants may have the same
 * MACs, which one counter of a MAC does not tell apart.
 */
import type { Db } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { Account } from '../../dataplane/bpf/port/slot_table.ts'
import type { Plane } from '../../dataplane/plane.ts'
import { tenantBindings } from '../networks/offers.ts'
import { queries } from './queries.ts'
import { minus, NOTHING, plus } from './sums.ts'
import type { Sums } from './tables.ts'

/** What each tenant has carried since this was asked last, which is noted; those that have carried nothing are left out. */
export async function tenantsGrowth(tx: Db, ports: Pick<Plane['ports'], 'account'>): Promise<Map<string, Sums>> {
  const found = new Map<string, Sums>()
  await inSlices(tenantBindings(tx), ({ tenant, key, since }) => {
    const account = ports.account(key)
    const fresh = account && growth(tx, key, since, sumsOf(account))
    if (fresh === undefined) return
    const sums = found.get(tenant) ?? { ...NOTHING }
    plus(sums, fresh)
    found.set(tenant, sums)
  })
  return found
}

/** Counters only grow until a reboot, and those of another binding begin at 0. */
function growth(tx: Db, key: string, since: string, reached: Sums): Sums | undefined {
  if (reached.packetsIn + reached.packetsOut === 0) return undefined
  const known = queries(tx).binding.get({ key })
  const goesOn = known?.since === since && reached.bytesIn >= known.bytesIn && reached.bytesOut >= known.bytesOut
  const sums = goesOn ? minus(reached, known) : reached
  if (sums.packetsIn + sums.packetsOut <= 0) return undefined
  queries(tx).putBinding.run({ key, since, ...reached })
  return sums
}

const sumsOf = ({ downBytes, upBytes, downPackets, upPackets }: Account): Sums => ({
  bytesIn: Number(downBytes),
  bytesOut: Number(upBytes),
  packetsIn: Number(downPackets),
  packetsOut: Number(upPackets),
})

/** Forgets what bindings had reached that are no more. */
export async function forgetBindings(tx: Db): Promise<void> {
  const alive = new Set<string>()
  await inSlices(tenantBindings(tx), ({ key }) => alive.add(key))
  await inSlices(everyBinding(tx), (key) => {
    if (!alive.has(key)) queries(tx).removeBinding.run({ key })
  })
}

function* everyBinding(db: Db): Generator<string> {
  for (let after = ''; ; ) {
    const page = queries(db).bindingsAfter.all({ after, limit: 500 })
    for (const { key } of page) yield key
    const last = page.at(-1)
    if (last === undefined) return
    after = last.key
  }
}
