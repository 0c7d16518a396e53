/** Rows → entries of the program on the workload ports. Pure. */
import { and, eq } from 'drizzle-orm'
import type { Desired } from '../../core/area.ts'
import { vlanPolicy } from '../../dataplane/bpf/port/entries.ts'
import { policies } from './tables.ts'

export const desired: Desired = {
  all: (db) =>
    db
      .select()
      .from(policies)
      .where(eq(policies.allowed, false))
      .all()
      .map(({ vlan }) => vlanPolicy('vlan', vlan)),
  one: (db, id) =>
    db
      .select()
      .from(policies)
      .where(and(eq(policies.vlan, Number(id)), eq(policies.allowed, false)))
      .all()
      .map(({ vlan }) => vlanPolicy('vlan', vlan)),
}
