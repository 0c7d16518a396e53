/** Domain rules of pools and their members. */
import { eq } from 'drizzle-orm'
import type { Change, Db, Ref } from '../../core/area.ts'
import { conflict, lacks, limitReached } from '../../core/errors.ts'
import { PAGE } from '../../core/transport/list.ts'
import { inSlices, type Steps, stepwise } from '../../dataplane/slices.ts'
import { checkGuarantees, checkRate, findPool, printable, readMac } from './input.ts'
import { type Bounds, otherPool } from './limits.ts'
import { macRef, place, placePool, placing, poolRef } from './place.ts'
import { queries } from './queries.ts'
import type { MemberInput, Pool, PoolInput } from './schemas.ts'
import { type LimitRow, type MemberRow, members, type PoolRow, pools } from './tables.ts'

/** Rows after which others may have their turn. */
const STEP = 100

const resource = (id: string) => `/api/v1/bandwidth/pools/${id}`

/** Every pool as the wire shows it. */
export function* allPools(db: Db): Steps<Pool[]> {
  const shown: Pool[] = []
  for (const row of queries(db).pools.all()) {
    shown.push(yield* poolView(db, row))
    yield
  }
  return shown
}

function* poolView(db: Db, { id, name, total }: PoolRow): Steps<Pool> {
  const ceilings = new Map<string, number>()
  const { memberPage, limitInPage } = queries(db)
  for (const { mac, rate } of paged<Pick<MemberRow, 'mac' | 'rate'>>((last) =>
    memberPage.all({ pool: id, after: last?.mac ?? '' }),
  )) {
    ceilings.set(mac, rate)
    if (ceilings.size % STEP === 0) yield
  }
  let many = 0
  for (const { mac, rate } of paged<Pick<LimitRow, 'seq' | 'mac' | 'rate'>>((last) =>
    limitInPage.all({ pool: id, after: last?.seq ?? 0 }),
  )) {
    const other = ceilings.get(mac) ?? 0
    ceilings.set(mac, rate && other ? Math.min(rate, other) : rate || other)
    if (++many % STEP === 0) yield
  }
  const allocated = [...ceilings.values()].reduce((sum, rate) => sum + rate, 0)
  return { ID: id, Name: name, TotalBps: total, AllocatedBps: allocated, Members: [...ceilings.keys()].sort() }
}

/** MACs in a pool, by themselves first; one that a limit makes a member as well comes twice. */
function* macsIn(db: Db, pool: string): Generator<string> {
  const { memberPage, limitInPage } = queries(db)
  const own = (last: { mac: string } | undefined) => memberPage.all({ pool, after: last?.mac ?? '' })
  const named = (last: { seq: number; mac: string } | undefined) => limitInPage.all({ pool, after: last?.seq ?? 0 })
  for (const { mac } of paged(own)) yield mac
  for (const { mac } of paged(named)) yield mac
}

/** All rows, of which `page` reads PAGE after the last. */
function* paged<Row>(page: (last: Row | undefined) => Row[]): Generator<Row> {
  for (let last: Row | undefined; ; ) {
    const rows = page(last)
    yield* rows
    if (rows.length < PAGE) return
    last = rows.at(-1)
  }
}

/** Makes a pool, or gives the one of this id another total and name. @throws ApiError 400, 409 */
export async function putPool(
  tx: Db,
  input: PoolInput,
  { gbps, max }: Bounds,
): Promise<Change<{ status: 'created' | 'updated'; id: string }>> {
  const { id, total_bps: total } = input
  checkRate(total, 'total_bps', gbps)
  const before = queries(tx).pool.get({ id })
  const fields = { total, name: input.name ?? before?.name ?? '' }
  const { row, touch } = before ? await stepwise(changed(tx, before, fields)) : made(tx, { id, ...fields }, max)
  const status = before ? 'updated' : 'created'
  return {
    result: { status, id },
    touch,
    events: [{ type: `bandwidth_pool.${status}`, resource: resource(id), data: await stepwise(poolView(tx, row)) }],
  }
}

function made(tx: Db, fields: Pick<PoolRow, 'id' | 'total' | 'name'>, max: number) {
  if ((queries(tx).poolCount.get()?.many ?? 0) >= max) throw limitReached('bandwidth pools', max)
  const { number, touch } = placePool(tx)
  return {
    row: tx
      .insert(pools)
      .values({ number, ...fields })
      .returning()
      .get(),
    touch,
  }
}

function* changed(
  tx: Db,
  before: PoolRow,
  fields: Pick<PoolRow, 'total' | 'name'>,
): Steps<{ row: PoolRow; touch: Ref[] }> {
  const row = { ...before, ...fields }
  checkGuarantees(tx, row)
  tx.update(pools).set(fields).where(eq(pools.id, row.id)).run()
  const touch = [poolRef(row.number)]
  if (before.total === row.total) return { row, touch }
  // Whoever has no ceiling of its own has that of the pool.
  const seen = new Set<string>()
  for (const mac of macsIn(tx, row.id)) {
    if (!seen.has(mac)) touch.push(macRef(mac))
    if (seen.add(mac).size % STEP === 0) yield
  }
  return { row, touch }
}

/** Members that were added by themselves become unshaped. @throws ApiError 404; 409 while a limit names the pool (D9) */
export async function deletePool(tx: Db, id: string): Promise<Change<{ status: 'deleted'; id: string }>> {
  const row = findPool(tx, id)
  const limit = queries(tx).limitIn.get({ pool: id })
  if (limit) throw conflict('IN_USE', `pool ${id} is in use: limit ${limit.id} names it`)
  const macs: string[] = []
  await inSlices(macsIn(tx, id), (mac) => macs.push(mac))
  tx.delete(members).where(eq(members.poolId, id)).run()
  tx.delete(pools).where(eq(pools.id, id)).run()
  return {
    result: { status: 'deleted', id },
    touch: [...(await stepwise(placing(tx, macs))), poolRef(row.number)],
    events: [{ type: 'bandwidth_pool.deleted', resource: resource(id), data: { id } }],
  }
}

/** Adds a member, or gives it another ceiling. @throws ApiError 400, 404, 409 for one of another pool */
export function putMember(
  tx: Db,
  input: MemberInput,
  gbps: number,
): Change<{ status: 'added' | 'updated'; pool_id: string; member_mac: string }> {
  const mac = readMac(input.member_mac, 'member_mac')
  const { rate_bps: rate = 0, pool_id: poolId } = input
  checkRate(rate, 'rate_bps', gbps)
  findPool(tx, poolId)
  const before = queries(tx).member.get({ mac })
  const elsewhere = [before?.poolId, queries(tx).limitOf.get({ mac })?.poolId].find((it) => it && it !== poolId)
  if (elsewhere) throw otherPool(mac, elsewhere)
  const row = { mac, poolId, rate }
  tx.insert(members).values(row).onConflictDoUpdate({ target: members.mac, set: row }).run()
  const status = before ? 'updated' : 'added'
  const data = { pool_id: poolId, member_mac: mac }
  return {
    result: { status, ...data },
    touch: place(tx, mac),
    events: [{ type: `pool_member.${status}`, resource: resource(poolId), data }],
  }
}

/** @throws ApiError 404; 409 when a limit makes it one */
export function deleteMember(
  tx: Db,
  id: string,
  text: string,
): Change<{ status: 'removed'; pool_id: string; member_mac: string }> {
  const mac = readMac(text, 'mac')
  findPool(tx, id)
  const limit = queries(tx).limitOf.get({ mac })
  if (limit?.poolId === id) {
    throw conflict(
      'IN_USE',
      `${mac} is in pool ${id} by limit ${limit.id}: delete the limit, or take the pool out of it`,
    )
  }
  if (queries(tx).member.get({ mac })?.poolId !== id) throw lacks(`bandwidth pool ${printable(id)}`, `member ${mac}`)
  queries(tx).removeMember.run({ mac })
  const data = { pool_id: id, member_mac: mac }
  return {
    result: { status: 'removed', ...data },
    touch: place(tx, mac),
    events: [{ type: 'pool_member.removed', resource: resource(id), data }],
  }
}
