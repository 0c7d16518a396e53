/** The statements of BGP, prepared once per connection. */
import { and, asc, count, eq, gt, or, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import {
  type AnnouncementRow,
  announcements,
  neighbors,
  nextHops,
  prefixLists,
  routeMaps,
  sessions,
  speaker,
} from './tables.ts'

const given = sql.placeholder

export const queries = prepared((db) => ({
  speaker: db.select().from(speaker).prepare(),
  neighbor: db
    .select()
    .from(neighbors)
    .where(eq(neighbors.addr, given('addr')))
    .prepare(),
  neighbors: db.select().from(neighbors).orderBy(asc(neighbors.id)).prepare(),
  neighborPage: db
    .select()
    .from(neighbors)
    .where(gt(neighbors.id, given('after')))
    .orderBy(asc(neighbors.id))
    .limit(PAGE)
    .prepare(),
  neighborCount: db.select({ many: count() }).from(neighbors).prepare(),
  /** AS numbers of speakers that have a neighbor. */
  speakers: db
    .selectDistinct({ as: neighbors.speakerAs, view: neighbors.view })
    .from(neighbors)
    .orderBy(asc(neighbors.speakerAs))
    .prepare(),
  ofSpeaker: db
    .select()
    .from(neighbors)
    .where(eq(neighbors.speakerAs, given('as')))
    .limit(1)
    .prepare(),
  withMap: db
    .select()
    .from(neighbors)
    .where(or(eq(neighbors.importMap, given('id')), eq(neighbors.exportMap, given('id'))))
    .prepare(),
  exporting: db
    .select({ id: neighbors.id })
    .from(neighbors)
    .where(eq(neighbors.exportMap, given('id')))
    .limit(1)
    .prepare(),
  exportMaps: db.selectDistinct({ id: neighbors.exportMap }).from(neighbors).prepare(),
  session: db
    .select()
    .from(sessions)
    .where(eq(sessions.neighborId, given('id')))
    .prepare(),
  /** What was last seen of each neighbor. */
  known: db
    .select({ addr: neighbors.addr, state: sessions.state, bfd: sessions.bfd, changedAt: sessions.changedAt })
    .from(neighbors)
    .innerJoin(sessions, eq(sessions.neighborId, neighbors.id))
    .prepare(),
  move: db
    .update(sessions)
    .set({ state: sql`${given('state')}`, bfd: sql`${given('bfd')}`, changedAt: sql`${given('changedAt')}` })
    .where(eq(sessions.neighborId, given('id')))
    .prepare(),
  anyBfd: db.select({ id: neighbors.id }).from(neighbors).where(eq(neighbors.bfd, true)).limit(1).prepare(),
  sessionCounts: db.select({ state: sessions.state, many: count() }).from(sessions).groupBy(sessions.state).prepare(),
  bfdUp: db.select({ many: count() }).from(sessions).where(eq(sessions.bfd, 'up')).prepare(),
  announcement: db
    .select()
    .from(announcements)
    .where(eq(announcements.prefix, given('prefix')))
    .prepare(),
  announcementPage: db
    .select()
    .from(announcements)
    .where(gt(announcements.id, given('after')))
    .orderBy(asc(announcements.id))
    .limit(PAGE)
    .prepare(),
  announcementCount: db.select({ many: count() }).from(announcements).prepare(),
  withAttributes: db
    .select()
    .from(announcements)
    .where(eq(announcements.attributes, given('attributes')))
    .limit(1)
    .prepare(),
  withTag: db
    .select({ id: announcements.id })
    .from(announcements)
    .where(eq(announcements.tag, given('tag')))
    .limit(1)
    .prepare(),
  nextHop: db
    .select()
    .from(nextHops)
    .where(eq(nextHops.address, given('address')))
    .prepare(),
  nextHops: db
    .select()
    .from(nextHops)
    .where(eq(nextHops.family, given('family')))
    .orderBy(asc(nextHops.tag))
    .prepare(),
  lists: db.select().from(prefixLists).orderBy(asc(prefixLists.id)).prepare(),
  listPage: db
    .select()
    .from(prefixLists)
    .where(gt(prefixLists.id, given('after')))
    .orderBy(asc(prefixLists.id))
    .limit(PAGE)
    .prepare(),
  list: db
    .select()
    .from(prefixLists)
    .where(eq(prefixLists.name, given('name')))
    .prepare(),
  listById: db
    .select()
    .from(prefixLists)
    .where(eq(prefixLists.id, given('id')))
    .prepare(),
  listCount: db.select({ many: count() }).from(prefixLists).prepare(),
  maps: db.select().from(routeMaps).orderBy(asc(routeMaps.id)).prepare(),
  mapPage: db
    .select()
    .from(routeMaps)
    .where(gt(routeMaps.id, given('after')))
    .orderBy(asc(routeMaps.id))
    .limit(PAGE)
    .prepare(),
  map: db
    .select()
    .from(routeMaps)
    .where(eq(routeMaps.name, given('name')))
    .prepare(),
  mapById: db
    .select()
    .from(routeMaps)
    .where(eq(routeMaps.id, given('id')))
    .prepare(),
  mapCount: db.select({ many: count() }).from(routeMaps).prepare(),
  /** Maps of which a rule names the list. */
  mapsOfList: db
    .select()
    .from(routeMaps)
    .where(
      and(
        sql`exists (select 1 from json_each(${routeMaps.entries}) where json_extract(value, '$.match_prefix') = ${given('name')})`,
      ),
    )
    .prepare(),
}))

/** The lowest number that no next hop has. */
export function freeTag(db: Db): number {
  const row = db.get<{ tag: number } | undefined>(
    sql`select min(n.tag) + 1 as tag from (select 0 as tag union select tag from bgp_next_hops) n
        where not exists (select 1 from bgp_next_hops m where m.tag = n.tag + 1)`,
  )
  return row?.tag ?? 1
}

/** Page by page, so that no statement stays open while the caller yields. */
export function* everyAnnouncement(db: Db): Generator<AnnouncementRow> {
  for (let after = 0; ; ) {
    const page = queries(db).announcementPage.all({ after })
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) return
    after = last.id
  }
}
