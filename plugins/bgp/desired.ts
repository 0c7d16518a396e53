/** Rows → what bgpd shall hold, and who may speak to it. Pure. */
import type { Db, Desired, Ref } from '../../core/area.ts'
import type { Entry } from '../../dataplane/entry.ts'
import {
  type BgpEntry,
  bgpInstance,
  bgpNeighbor,
  bgpNetwork,
  bgpOutlet,
  bgpPrefixList,
  bgpRouteMap,
  FAMILIES,
  type Families,
  type MapRule,
  type Speaker,
} from '../../dataplane/frr/entries.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { opening } from '../firewall/offers.ts'
import { everyAnnouncement, queries } from './queries.ts'
import type { PrefixEntry, RouteMapEntry } from './schemas.ts'
import type { AnnouncementRow, ListRow, MapRow, NeighborRow } from './tables.ts'

/** RFC 4271 §5, RFC 5881 §4. */
const BGP_PORT = 179
const BFD_PORT = 3784

const ref = (id: string): Ref => ({ area: 'bgp', id })
export const speakerRef = (as: number): Ref => ref(`speaker/${as}`)
export const neighborRef = (addr: string): Ref => ref(`neighbor/${addr}`)
export const networkRef = (as: number, prefix: string): Ref => ref(`network/${as}/${prefix}`)
export const attributesRef = (attributes: string): Ref => ref(`attributes/${attributes}`)
export const listRef = (id: number): Ref => ref(`list/${id}`)
export const mapRef = (id: number): Ref => ref(`map/${id}`)
/** What leaves by neighbors whose export policy is this map; 0 is none. */
export const outletRef = (id: number): Ref => ref(`outlet/${id}`)

export const desired: Desired = {
  *all(db, config) {
    const render = renderer(db)
    for (const { as, view } of queries(db).speakers.all()) {
      yield speakerEntry(db, { as, view }, config.text('bgp_router_id'))
      for (const row of everyAnnouncement(db)) yield render.network({ as, view }, row)
    }
    const attributes = new Set<string>()
    for (const row of anySpeaker(db) ? everyAnnouncement(db) : []) {
      if (!attributes.has(row.attributes)) yield attributesMap(row)
      attributes.add(row.attributes)
    }
    for (const row of anySpeaker(db) ? queries(db).lists.all() : []) yield listEntry(row)
    for (const row of anySpeaker(db) ? queries(db).maps.all() : []) yield* Object.values(render.maps(row.id))
    for (const { id } of queries(db).exportMaps.all()) yield* render.outlets(id)
    for (const row of queries(db).neighbors.all()) yield* render.neighbor(row)
  },
  one(db, id, config) {
    const [kind = '', first = '', ...others] = id.split('/')
    const render = renderer(db)
    switch (kind) {
      case 'speaker': {
        const row = queries(db).ofSpeaker.get({ as: Number(first) })
        return row ? [speakerEntry(db, speakerOf(row), config.text('bgp_router_id'))] : []
      }
      case 'neighbor': {
        const row = queries(db).neighbor.get({ addr: first })
        return row ? [...render.neighbor(row)] : []
      }
      case 'network': {
        const row = queries(db).announcement.get({ prefix: others.join('/') })
        const neighbor = queries(db).ofSpeaker.get({ as: Number(first) })
        return row && neighbor ? [render.network(speakerOf(neighbor), row)] : []
      }
      case 'attributes': {
        const row = anySpeaker(db)
          ? queries(db).withAttributes.get({ attributes: [first, ...others].join('/') })
          : undefined
        return row ? [attributesMap(row)] : []
      }
      case 'list': {
        const row = anySpeaker(db) ? queries(db).listById.get({ id: Number(first) }) : undefined
        return row ? [listEntry(row)] : []
      }
      case 'map':
        return anySpeaker(db) && queries(db).mapById.get({ id: Number(first) })
          ? Object.values(render.maps(Number(first)))
          : []
      default:
        return queries(db).exporting.get({ id: Number(first) }) ? render.outlets(Number(first)) : []
    }
  },
}

/** Without neighbors nobody is told anything, so the speaker need not run. */
const anySpeaker = (db: Db): boolean => queries(db).speaker.get() !== undefined
export const speakerOf = ({ speakerAs, view }: NeighborRow): Speaker => ({ as: speakerAs, view })

function speakerEntry(db: Db, speaker: Speaker, routerId: string): BgpEntry {
  return bgpInstance(speaker, routerId || (queries(db).speaker.get()?.routerId ?? ''))
}

/** What an announcement sets, named by what that is. */
export function attributesMap({ communities, tag }: Pick<AnnouncementRow, 'communities' | 'tag'>) {
  const all: string[] = JSON.parse(communities)
  return bgpRouteMap('attributes', [
    { seq: 1, permit: true, set: { ...(all.length > 0 && { communities: all }), ...(tag > 0 && { tag }) } },
  ])
}

function listEntry({ id, entries }: ListRow) {
  const rules: PrefixEntry[] = JSON.parse(entries)
  return bgpPrefixList(
    id,
    rules.map(({ action, ...rest }) => ({ permit: action === 'permit', ...rest })),
  )
}

/** Renders what rests on policies, each of which is read once. */
function renderer(db: Db) {
  const lists = new Map<string, string>()
  const known = new Map<number, Families<BgpEntry & { name: string }> | undefined>()
  const outlets = new Map<number, Families<BgpEntry & { name: string }>>()

  function listName(name: string): string {
    const row = queries(db).list.get({ name })
    if (row === undefined)
      throw new TypeError('a rule names a prefix-list that is gone: the row was changed behind the agent')
    const found = lists.get(name) ?? listEntry(row).name
    lists.set(name, found)
    return found
  }

  function ruleOf({ seq, action, ...rest }: RouteMapEntry, family: 4 | 6): MapRule {
    const { match_prefix: list, set_local_pref: localPref, set_med: med, set_community: communities } = rest
    return {
      ...{ seq, permit: action === 'permit' },
      ...(list !== '' && { match: { list: listName(list), family } }),
      set: { localPref, med, communities: communities?.split(' ').filter((it) => it !== '') },
    }
  }

  const mapOf = ({ id, entries }: MapRow, family: 4 | 6) => {
    const rules: RouteMapEntry[] = JSON.parse(entries)
    // One without rules denies everything, and so does one that has a rule that says so.
    const all: MapRule[] = rules.length === 0 ? [{ seq: 1, permit: false }] : rules.map((rule) => ruleOf(rule, family))
    return bgpRouteMap(`${id} ${family}`, all)
  }

  function maps(id: number): Families<BgpEntry & { name: string }> {
    const row = known.has(id) ? undefined : queries(db).mapById.get({ id })
    if (row) known.set(id, { 4: mapOf(row, 4), 6: mapOf(row, 6) })
    const found = known.get(id)
    if (found === undefined)
      throw new TypeError('a policy names a route-map that is gone: the row was changed behind the agent')
    return found
  }
  const names = (id: number): Families<string> =>
    id === 0 ? { 4: '', 6: '' } : { 4: maps(id)[4].name, 6: maps(id)[6].name }

  function outletsOf(id: number): Families<BgpEntry & { name: string }> {
    const of = (family: 4 | 6) => bgpOutlet(names(id)[family], family, queries(db).nextHops.all({ family }))
    const found = outlets.get(id) ?? { 4: of(4), 6: of(6) }
    outlets.set(id, found)
    return found
  }

  return {
    maps,
    outlets: (id: number): BgpEntry[] => FAMILIES.map((family) => outletsOf(id)[family]),
    network: (speaker: Speaker, row: AnnouncementRow): BgpEntry =>
      bgpNetwork(speaker, row.prefix, attributesMap(row).name),
    *neighbor(row: NeighborRow): Generator<Entry> {
      const source = parsePrefix(row.addr)
      if (source === undefined)
        throw new TypeError('a stored address cannot be read: the row was changed behind the agent')
      const outward = outletsOf(row.exportMap)
      yield bgpNeighbor({
        speaker: speakerOf(row),
        address: row.addr,
        ...{ remoteAs: row.peerAs, localAs: row.localAs, holdTime: row.holdTime, keepalive: row.keepalive },
        password: row.md5Key,
        bfd: row.bfd ? { intervalMs: row.bfdInterval, multiplier: row.bfdMultiplier } : undefined,
        import: names(row.importMap),
        export: { 4: outward[4].name, 6: outward[6].name },
      })
      yield opening('tcp', BGP_PORT, source)
      if (row.bfd) yield opening('udp', BFD_PORT, source)
    },
  }
}
