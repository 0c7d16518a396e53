/** Domain rules of VLAN lockdown. A deny-list: only a row with `allowed: false` has an effect (D63). */
import { asc, eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { badRequest } from '../../core/errors.ts'
import type { Policy, PolicyInput } from './schemas.ts'
import { policies } from './tables.ts'

export const policyRef = (vlan: number) => ({ area: 'vlan', id: String(vlan) })
const resource = (vlan: number) => `/api/v1/vlan/${vlan}`
const toPolicy = ({ vlan, allowed }: typeof policies.$inferSelect): Policy => ({ vlan_id: vlan, allowed })

export const list = (db: Db): Policy[] => db.select().from(policies).orderBy(asc(policies.vlan)).all().map(toPolicy)

/** Without `allowed` the VLAN is locked down, which is what the verb is for. A VLAN that has a row is updated. */
export function setPolicy(tx: Db, input: PolicyInput): Change<{ status: 'created' | 'updated'; vlan: Policy }> {
  const { vlan_id: vlan, allowed = false } = input
  const known = tx.select().from(policies).where(eq(policies.vlan, vlan)).get()
  tx.insert(policies).values({ vlan, allowed }).onConflictDoUpdate({ target: policies.vlan, set: { allowed } }).run()
  const policy = { vlan_id: vlan, allowed }
  return {
    result: { status: known ? 'updated' : 'created', vlan: policy },
    touch: [policyRef(vlan)],
    events: [{ type: known ? 'vlan.updated' : 'vlan.created', resource: resource(vlan), data: policy }],
  }
}

/** Back to the default, also when it is there already. */
export function clearPolicy(tx: Db, path: string): Change<{ status: 'deleted'; vlan_id: number }> {
  const vlan = readVlan(path)
  tx.delete(policies).where(eq(policies.vlan, vlan)).run()
  return {
    result: { status: 'deleted', vlan_id: vlan },
    touch: [policyRef(vlan)],
    events: [{ type: 'vlan.deleted', resource: resource(vlan), data: { vlan_id: vlan } }],
  }
}

function readVlan(path: string): number {
  const vlan = /^[1-9][0-9]{0,3}$/.test(path) ? Number(path) : 0
  if (vlan < 1 || vlan > 4094) throw badRequest('vlan_id: must be a whole number from 1 to 4094')
  return vlan
}
