/** Domain rules of announcements (D81). */
import { eq } from 'drizzle-orm'
import type { Change, Db, Ref } from '../../core/area.ts'
import { badRequest, limitReached, notFound } from '../../core/errors.ts'
import { LAST_SEQ } from '../../dataplane/frr/entries.ts'
import { attributesMap, attributesRef, networkRef, outletRef } from './desired.ts'
import { freeTag, queries } from './queries.ts'
import type { AnnounceInput, Announcement, Route } from './schemas.ts'
import { type AnnouncementRow, announcements, nextHops } from './tables.ts'
import { readAddress, readCommunities, readPrefix } from './values.ts'

const resource = (prefix: string): string => `/api/v1/bgp/announcements/${encodeURIComponent(prefix)}`

export const toAnnouncement = ({ prefix, nextHop, communities }: AnnouncementRow): Announcement => ({
  prefix,
  next_hop: nextHop,
  communities: JSON.parse(communities),
})

/** As the list of routes shows it. */
export const toRoute = ({ prefix, family, nextHop, communities, createdAt }: AnnouncementRow): Route => ({
  prefix,
  next_hop: nextHop || (family === 4 ? '0.0.0.0' : '::'),
  as_path: [],
  communities: JSON.parse(communities),
  origin: 'igp',
  peer_addr: '',
  source: 'announced',
  best: true,
  received_at: new Date(createdAt).toISOString(),
})

/** @throws ApiError 400 for what cannot be read, 409 when the limit is reached */
export function announce(
  tx: Db,
  input: AnnounceInput,
  { max, now }: { max: number; now: Date },
): Change<{ status: 'announced'; prefix: string }> {
  const { text: prefix, family } = readPrefix(input.prefix, 'prefix')
  const hop = input.next_hop ? readAddress(input.next_hop, 'next_hop') : undefined
  if (hop && hop.family !== family) throw badRequest('next_hop: must be of the address family of the prefix')
  const communities = readCommunities(input.communities ?? [], 'communities')
  const before = queries(tx).announcement.get({ prefix })
  const full = (queries(tx).announcementCount.get()?.many ?? 0) >= max
  if (before === undefined && full) throw limitReached('BGP announcements', max)
  const touch: Ref[] = []
  const tag = hop === undefined ? 0 : tagOf(tx, hop, touch)
  const told = { communities: JSON.stringify(communities), tag }
  const values = { prefix, family, nextHop: hop?.text ?? '', ...told, attributes: attributesMap(told).name }
  if (before) tx.update(announcements).set(values).where(eq(announcements.id, before.id)).run()
  else
    tx.insert(announcements)
      .values({ ...values, createdAt: now.getTime() })
      .run()
  if (before) {
    touch.push(attributesRef(before.attributes))
    forgetTag(tx, before.tag, touch)
  }
  touch.push(attributesRef(values.attributes), ...networks(tx, prefix))
  const data: Announcement = { prefix, next_hop: values.nextHop, communities }
  const type = before ? 'announcement.updated' : 'announcement.created'
  return { result: { status: 'announced', prefix }, touch, events: [{ type, resource: resource(prefix), data }] }
}

/** @throws ApiError 400 for what is no prefix, 404 for one that is not announced */
export function withdraw(tx: Db, input: string): Change<{ status: 'withdrawn'; prefix: string }> {
  const { text: prefix } = readPrefix(input, 'prefix')
  const row = queries(tx).announcement.get({ prefix })
  if (row === undefined) throw notFound('announcement', prefix)
  tx.delete(announcements).where(eq(announcements.id, row.id)).run()
  const touch: Ref[] = [attributesRef(row.attributes), ...networks(tx, prefix)]
  forgetTag(tx, row.tag, touch)
  return {
    result: { status: 'withdrawn', prefix },
    touch,
    events: [{ type: 'announcement.deleted', resource: resource(prefix), data: { prefix } }],
  }
}

const networks = (tx: Db, prefix: string): Ref[] =>
  queries(tx)
    .speakers.all()
    .map(({ as }) => networkRef(as, prefix))
const outlets = (tx: Db): Ref[] =>
  queries(tx)
    .exportMaps.all()
    .map(({ id }) => outletRef(id))

function tagOf(tx: Db, { text, family }: { text: string; family: 4 | 6 }, touch: Ref[]): number {
  const known = queries(tx).nextHop.get({ address: text })
  if (known) return known.tag
  const tag = freeTag(tx)
  if (tag >= LAST_SEQ) throw limitReached('different next hops of announcements', LAST_SEQ - 1)
  tx.insert(nextHops).values({ tag, family, address: text }).run()
  touch.push(...outlets(tx))
  return tag
}

/** A next hop that no announcement names any more. */
function forgetTag(tx: Db, tag: number, touch: Ref[]): void {
  if (tag === 0 || queries(tx).withTag.get({ tag })) return
  tx.delete(nextHops).where(eq(nextHops.tag, tag)).run()
  touch.push(...outlets(tx))
}
