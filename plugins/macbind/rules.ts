/** Domain rules of MAC bindings. */
import { asc, count, eq, gt } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, lacks, limitReached } from '../../core/errors.ts'
import { PAGE } from '../../core/transport/list.ts'
import { parseMac } from '../../dataplane/nft/text.ts'
import type { Binding, BindingInput } from './schemas.ts'
import { bindings, type Row } from './tables.ts'

export const bindingRef = (mac: string) => ({ area: 'macbind', id: mac })
const resource = (mac: string) => `/api/v1/macbind/${mac}`

export const toBinding = ({ id, mac, port, vlan, mode }: Row): Binding => ({
  id,
  mac,
  port_id: port,
  vlan_id: vlan,
  mode,
})

/** At most a page of rows after id `after`. */
export const page = (db: Db, after: number): Row[] =>
  db.select().from(bindings).where(gt(bindings.id, after)).orderBy(asc(bindings.id)).limit(PAGE).all()

export function createBinding(
  tx: Db,
  input: BindingInput,
  max: number,
): Change<{ status: 'created'; binding: Binding }> {
  const mac = readMac(input.mac)
  // The group bit (IEEE 802-2014, 8.2.2): nobody sends from such an address, so nobody can be bound to it.
  if (Number.parseInt(mac.slice(0, 2), 16) & 1) throw badRequest('mac: is a multicast address')
  if (mac === '00:00:00:00:00:00') throw badRequest('mac: no device has the address 00:00:00:00:00:00')
  if (tx.select().from(bindings).where(eq(bindings.mac, mac)).get()) throw alreadyExists(`binding of ${mac}`)
  const { many } = tx.select({ many: count() }).from(bindings).get() ?? { many: 0 }
  if (many >= max) throw limitReached('MAC bindings', max)
  const { port_id: port = '', vlan_id: vlan = 0, mode = 'hard' } = input
  const binding = toBinding(tx.insert(bindings).values({ mac, port, vlan, mode }).returning().get())
  return {
    result: { status: 'created', binding },
    touch: [bindingRef(mac)],
    events: [{ type: 'macbind.created', resource: resource(mac), data: binding }],
  }
}

export function deleteBinding(tx: Db, path: string): Change<{ status: 'deleted'; mac: string }> {
  const mac = readMac(path)
  const { changes } = tx.delete(bindings).where(eq(bindings.mac, mac)).run()
  if (changes === 0) throw lacks(mac, 'MAC binding')
  return {
    result: { status: 'deleted', mac },
    touch: [bindingRef(mac)],
    events: [{ type: 'macbind.deleted', resource: resource(mac), data: { mac } }],
  }
}

function readMac(text: string): string {
  const mac = parseMac(text)
  if (mac === undefined) throw badRequest('mac: not a MAC address')
  return mac
}
