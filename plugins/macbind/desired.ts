/** Rows → entries of the program on the workload ports. Pure. */
import { eq } from 'drizzle-orm'
import type { Desired } from '../../core/area.ts'
import { macBinding } from '../../dataplane/bpf/port/entries.ts'
import { bindings, type Row } from './tables.ts'

const entry = ({ mac, port, vlan, mode }: Row) => macBinding('macbind', { mac, port, vlan, mode })

export const desired: Desired = {
  all: (db) => db.select().from(bindings).all().map(entry),
  one: (db, mac) => db.select().from(bindings).where(eq(bindings.mac, mac)).all().map(entry),
}
