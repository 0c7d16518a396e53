/** Domain rules of routed public addresses: the blocks of them. Which machine uses one: claims.ts. */
import type { Change, Db } from '../../core/area.ts'
import { badRequest, conflict, limitReached, notFound } from '../../core/errors.ts'
import { admit, type Gone } from '../../core/tenancy.ts'
import { insideRef } from './desired.ts'
import { type Block, blockText, certain, ipText, meet, parseBlock, parseIp } from './ipv4.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { Range, RangeInput } from './schemas.ts'
import type { RangeRow } from './tables.ts'
import { toRange } from './views.ts'

/** Largest block: 4096 addresses (D47). */
const SHORTEST = 20

/** What is never routed to a node of its own: the special-purpose addresses of RFC 6890 and what followed it (D47). */
const RESERVED: readonly [string, string][] = [
  ['0.0.0.0/8', 'this network'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'shared by carriers'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link-local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'for protocol assignments'],
  ['192.0.2.0/24', 'for documentation'],
  ['192.88.99.0/24', 'for 6to4 relays'],
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'for benchmarks'],
  ['198.51.100.0/24', 'for documentation'],
  ['203.0.113.0/24', 'for documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
]

export interface RangeCreation {
  id: string
  /** Addresses of the node itself, as the system lists them; those of IPv6 are of no matter. */
  own: readonly string[]
  max: number
}

export function createRange(
  tx: Db,
  input: RangeInput,
  { id, own, max }: RangeCreation,
): Change<{ status: 'created'; range: Range }> {
  const block = readPublicBlock(input.cidr)
  const tenantId = admit(tx, input.tenant_id, 'routed_addresses', block.last - block.first + 1)
  const text = blockText(block)
  const other = routedQueries(tx).rangeFrom.get({ ip: block.first })
  if (other && meet(other, block))
    throw conflict('OVERLAP', `${text} overlaps ${blockText(other)}, which is there already`)
  const network = queries(tx).networkMeeting.get(block)
  if (network) throw conflict('OVERLAP', `${text} overlaps network ${network.name} (${blockText(network)})`)
  const mine = own.find((address) => holds(block, parseIp(address)))
  if (mine !== undefined) throw conflict('OVERLAP', `${text} holds ${mine}, an address of this node itself`)
  if ((routedQueries(tx).rangeCount.get()?.count ?? 0) >= max) throw limitReached('routed ranges', max)
  const row: RangeRow = { id, ...block, tenantId, description: input.description ?? '', used: 0 }
  routedQueries(tx).addRange.run(row)
  const range = toRange(row)
  return {
    result: { status: 'created', range },
    touch: [insideRef(block)],
    events: [{ type: 'routed_range.created', resource: `/api/v1/routed-addresses/${id}`, data: range }],
  }
}

/** @throws ApiError 409 while a machine uses one of its addresses */
export function deleteRange(tx: Db, row: RangeRow): Change<{ status: 'deleted'; id: string; cidr: string }> {
  if (row.used > 0) {
    const [claim] = routedQueries(tx).claimsBetween.all({ first: row.first, last: row.last })
    const { ip, machine } = certain(claim)
    throw conflict('IN_USE', `${blockText(row)} is in use: machine ${machine} has ${ipText(ip)}`)
  }
  return { result: { status: 'deleted', id: row.id, cidr: blockText(row) }, ...removeRange(tx, row) }
}

/** Removes a range, of which nothing is claimed any more. */
export function removeRange(tx: Db, row: RangeRow): Gone {
  const data = { id: row.id, cidr: blockText(row) }
  routedQueries(tx).removeRange.run({ id: row.id })
  return {
    touch: [insideRef(row)],
    events: [{ type: 'routed_range.deleted', resource: `/api/v1/routed-addresses/${row.id}`, data }],
  }
}

/** What stands in a path: an id, or a prefix with its slash or a dash for it. Anything else names no range: 404. */
export function rangeInPath(db: Db, text: string): RangeRow {
  const row = routedQueries(db).range.get({ id: text }) ?? rangeOn(db, text.replace(/-(?=\d+$)/, '/'))
  if (row === undefined) throw notFound('routed addresses', text.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

/** @throws ApiError 400 when it is no CIDR, 404 when there is no such range */
export function rangeWithCidr(db: Db, cidr: string): RangeRow {
  readBlock(cidr)
  return rangeInPath(db, cidr)
}

function rangeOn(db: Db, cidr: string): RangeRow | undefined {
  const block = parseBlock(cidr.includes('/') ? cidr : `${cidr}/32`)
  if (typeof block === 'string') return undefined
  const row = routedQueries(db).rangeFrom.get({ ip: block.first })
  return row?.first === block.first && row.last === block.last ? row : undefined
}

/** A bare address is the block of one. */
function readBlock(cidr: string): Block & { length: number } {
  const block = parseBlock(cidr.includes('/') ? cidr : `${cidr}/32`)
  if (typeof block === 'string') throw badRequest(`cidr: ${block}`)
  return block
}

function readPublicBlock(cidr: string): Block {
  const { first, last, length } = readBlock(cidr)
  const block = { first, last }
  if (length < SHORTEST) throw badRequest(`cidr: too wide, must be /${SHORTEST} or longer`)
  const reserved = RESERVED.find(([text]) => {
    const other = parseBlock(text)
    return typeof other !== 'string' && meet(block, other)
  })
  if (reserved) throw badRequest(`cidr: ${blockText(block)} is not public: ${reserved[0]} is ${reserved[1]}`)
  return block
}

const holds = ({ first, last }: Block, ip: number | undefined): boolean => ip !== undefined && ip >= first && ip <= last
