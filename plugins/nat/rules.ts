/** Domain rules of NAT: port forwards (D61) and source NAT (D62), with one sequence of ids. */
import { and, eq } from 'drizzle-orm'
import { readAddress } from '../../core/addresses.ts'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, limitReached, notFound } from '../../core/errors.ts'
import { boundsOf, cidrOf, readBlock } from './address.ts'
import { forwardRef, snatRef } from './desired.ts'
import { FORWARD, queries, SNAT } from './queries.ts'
import type { Forward, ForwardInput, NatRule, Snat, SnatInput } from './schemas.ts'
import { pending, type Row, rules } from './tables.ts'

type Created<Key extends string, T> = { status: 'created' } & Record<Key, T>
type Removed = { status: 'deleted'; id: number }

export const toForward = ({ id, destIp, destPort, targetIp, targetPort }: Row): Forward => ({
  id,
  dest_ip: destIp,
  dest_port: destPort,
  target_ip: targetIp,
  target_port: targetPort,
})

const toSnat = ({ id, cidr, interface: device }: Row): Snat => ({
  id,
  type: 'snat',
  source_ip: cidr,
  interface: device,
})

/** Either kind as the list of all shows it. */
export function toNatRule(row: Row): NatRule {
  if (row.type !== FORWARD) return toSnat(row)
  const { id, destIp, destPort, targetIp, targetPort } = row
  return {
    id,
    type: 'port_forward',
    source_ip: targetIp,
    source_port: targetPort,
    dest_ip: destIp,
    dest_port: destPort,
  }
}

/** @throws ApiError 400 for addresses that cannot be translated, 409 when the public side is taken or the limit reached */
export function createForward(tx: Db, input: ForwardInput, max: number): Change<Created<'port_forward', Forward>> {
  const [dest, target] = [readAddress(input.dest_ip, 'dest_ip'), readAddress(input.target_ip, 'target_ip')]
  if (dest.family !== target.family) throw badRequest('dest_ip, target_ip: must be of the same address family')
  const fields = { destIp: dest.text, destPort: input.dest_port, targetIp: target.text, targetPort: input.target_port }
  if (fields.destIp === fields.targetIp && fields.destPort === fields.targetPort) {
    throw badRequest('target_ip, target_port: are the destination itself')
  }
  if (queries(tx).forwardTo.get({ destIp: fields.destIp, destPort: fields.destPort })) {
    throw alreadyExists(`port forward of ${fields.destIp} port ${fields.destPort}`)
  }
  checkRoom(tx, max)
  const row = tx
    .insert(rules)
    .values({ type: FORWARD, family: dest.family, ...fields })
    .returning()
    .get()
  // What the same forward carried before it was removed, it carries again.
  forget(tx, row, { targetIp: row.targetIp, targetPort: row.targetPort })
  tx.insert(pending).values({ destIp: row.destIp, destPort: row.destPort }).run()
  const forward = toForward(row)
  return {
    result: { status: 'created', port_forward: forward },
    touch: [forwardRef(row.id)],
    events: [{ type: 'forward.created', resource: `/api/v1/forward/${row.id}`, data: forward }],
  }
}

export function deleteForward(tx: Db, path: string): Change<Removed> {
  const row = findForward(tx, path)
  const { id, destIp, destPort, targetIp, targetPort } = row
  queries(tx).remove.run({ id })
  forget(tx, row, { targetIp: '', targetPort: 0 })
  tx.insert(pending).values({ destIp, destPort, targetIp, targetPort }).run()
  return {
    result: { status: 'deleted', id },
    touch: [forwardRef(id)],
    events: [{ type: 'forward.deleted', resource: `/api/v1/forward/${id}`, data: { id } }],
  }
}

/** @throws ApiError 404 also for the id of source NAT */
export const findForward = (db: Db, path: string): Row => find(db, path, FORWARD, 'port forward')

/**
 * `uplink`: the default device, '' when there is none.
 * @throws ApiError 400 for a block or device that cannot be read or is given twice, 409 when it exists or the limit is reached
 */
export function createSnat(tx: Db, input: SnatInput, uplink: string, max: number): Change<Created<'rule', Snat>> {
  const source = oneOf(input, 'source_cidr', 'source')
  if (source === undefined) throw badRequest('source_cidr is required')
  const block = readBlock(source, 'source_cidr')
  const device = oneOf(input, 'interface', 'wan') || uplink
  if (device === '') throw badRequest('interface: this node has no uplink to take by default: name the device')
  const cidr = cidrOf(block)
  if (queries(tx).snatOf.get({ interface: device, cidr }))
    throw alreadyExists(`source NAT rule of ${cidr} by ${device}`)
  checkRoom(tx, max)
  const row = tx
    .insert(rules)
    .values({ type: SNAT, family: block.family, interface: device, cidr, ...boundsOf(block) })
    .returning()
    .get()
  const rule = toSnat(row)
  return {
    result: { status: 'created', rule },
    touch: queries(tx).snatWithin.all(row).map(snatRef),
    events: [{ type: 'snat.created', resource: `/api/v1/gateway/snat/${row.id}`, data: rule }],
  }
}

/** @throws ApiError 404 also for the id of a port forward */
export function deleteSnat(tx: Db, path: string): Change<Removed> {
  const row = find(tx, path, SNAT, 'source NAT rule')
  // With what stands in it, which comes to the fore.
  const touch = queries(tx).snatWithin.all(row).map(snatRef)
  queries(tx).remove.run({ id: row.id })
  return {
    result: { status: 'deleted', id: row.id },
    touch,
    events: [{ type: 'snat.deleted', resource: `/api/v1/gateway/snat/${row.id}`, data: { id: row.id } }],
  }
}

function find(db: Db, path: string, type: string, thing: string): Row {
  const id = /^[1-9][0-9]{0,14}$/.test(path) ? Number(path) : 0
  const row = queries(db).byId.get({ id })
  if (row?.type !== type) throw notFound(thing, path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

/** A field by its name or by its alias; both only if they agree. */
function oneOf<Key extends string>(input: Partial<Record<Key, string>>, name: Key, alias: Key): string | undefined {
  const [given, other] = [input[name], input[alias]]
  if (given !== undefined && other !== undefined && given !== other) {
    throw badRequest(`${name}, ${alias}: name the same thing and differ; give one of them`)
  }
  return given ?? other
}

function checkRoom(tx: Db, max: number): void {
  if ((queries(tx).count.get()?.many ?? 0) >= max) throw limitReached('port forwards and source NAT rules', max)
}

/** Work that has become pointless. */
function forget(tx: Db, { destIp, destPort }: Row, target: { targetIp: string; targetPort: number }): void {
  tx.delete(pending)
    .where(
      and(
        eq(pending.destIp, destIp),
        eq(pending.destPort, destPort),
        eq(pending.targetIp, target.targetIp),
        eq(pending.targetPort, target.targetPort),
      ),
    )
    .run()
}
