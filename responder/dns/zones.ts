/**
 * The zones that are held, as trees of labels. One change costs the depth of its name, however much is held.
 * Names that exist because something lies below them (empty non-terminals) are nodes too, and each node counts for whom
 * something lies at it or below, because a name may exist for one subnet only.
 */
import { parsePrefix } from '../../dataplane/netlink/inet.ts'
import type { DnsRecord, DnsZone } from '../../dataplane/responder/entries.ts'
import { type Csk, openCsk } from './keys.ts'
import { isWithin, labelsBelow, labelsOf, nameOf, textOf } from './names.ts'
import { rdataOf, TYPE, ttlOf } from './rdata.ts'
import { openViews, type View, type Views } from './views.ts'

export type ZoneEntry = DnsZone | DnsRecord
export interface ZonePassage {
  before?: ZoneEntry
  after?: ZoneEntry
}

export interface StoredRecord {
  readonly type: number
  readonly ttl: number
  readonly rdata: string
  /** undefined: for everybody. */
  readonly view: View | undefined
}

/** One name of a zone. */
export interface Node {
  readonly parent: Node | undefined
  readonly label: string
  children?: Map<string, Node>
  records: StoredRecord[]
  /** Records and zones of ours at this name or below, for everybody; and for a view each. */
  open: number
  scoped?: Map<View, number>
  /** A zone of ours begins here, and this one ends. */
  cut?: Zone
}

export interface Zone {
  /** As in `names.ts`. */
  readonly name: string
  readonly apex: Node
  soa: string
  soaTtl: number
  csk: Csk | undefined
  records: number
  /** Rises when any answer from this zone may have become another. Answers that are kept carry it. */
  generation: number
}

interface Held {
  zone: Zone
  node: Node
  record: StoredRecord
}

/** A node of the tree of all zones, from the root downwards. */
interface ZoneNode {
  zone?: Zone
  children: Map<string, ZoneNode>
}

export interface Zones {
  readonly views: Views
  /** All or nothing, and in force when it returns. Throws Error for what cannot be held. */
  apply(passages: readonly ZonePassage[]): void
  /** The zones that `labels` lies in, the one that answers last. */
  enclosing(labels: readonly string[]): Zone[]
  counts(): { zones: number; records: number }
}

/** Everything that may throw is done before anything is changed. */
interface Plan {
  gone: { zones: string[]; records: string[] }
  zones: { name: string; soa: string; soaTtl: number; csk: Csk | undefined }[]
  records: { key: string; zone: string; name: string; subnet: string; record: Omit<StoredRecord, 'view'> }[]
}

const TYPES: ReadonlyMap<string, number> = new Map(Object.entries(TYPE))

export function openZones(): Zones {
  const views = openViews()
  const root: ZoneNode = { children: new Map() }
  const zones = new Map<string, Zone>()
  const held = new Map<string, Held>()

  return {
    views,
    apply(passages) {
      const plan = planOf(passages)
      check(plan)
      for (const key of plan.gone.records) remove(key)
      for (const name of plan.gone.zones) if (!plan.zones.some((zone) => zone.name === name)) close(name)
      for (const zone of plan.zones) open(zone)
      for (const record of plan.records) add(record)
    },
    enclosing(labels) {
      const found: Zone[] = root.zone ? [root.zone] : []
      let node: ZoneNode | undefined = root
      for (let n = labels.length - 1; n >= 0 && node; n--) {
        node = node.children.get(labels[n] ?? '')
        if (node?.zone) found.push(node.zone)
      }
      return found
    },
    counts: () => ({ zones: zones.size, records: held.size }),
  }

  /** What the plan needs of what is held. */
  function check({ gone, zones: opened, records }: Plan): void {
    const left = new Map<string, number>()
    const count = (zone: string, by: number) => left.set(zone, (left.get(zone) ?? zones.get(zone)?.records ?? 0) + by)
    for (const key of gone.records) {
      const zone = held.get(key)?.zone.name
      if (zone !== undefined) count(zone, -1)
    }
    for (const { zone } of records) count(zone, 1)
    const opening = new Set(opened.map(({ name }) => name))
    const closing = new Set(gone.zones.filter((name) => !opening.has(name)))
    for (const [name, records] of left) {
      const there = opening.has(name) || (zones.has(name) && !closing.has(name))
      if (!there && records > 0) throw new Error(`${textOf(name)} is no zone that is held`)
    }
    for (const name of closing) {
      if ((left.get(name) ?? zones.get(name)?.records ?? 0) > 0) throw new Error(`${textOf(name)} still has records`)
    }
  }

  /** The one call by which answers that are kept stop to count. */
  function invalidate(zone: Zone): void {
    zone.generation++
  }

  function open({ name, ...content }: Plan['zones'][number]): void {
    const known = zones.get(name)
    const zone = known ?? { name, apex: node(undefined, ''), records: 0, generation: 0, ...content }
    Object.assign(zone, content)
    invalidate(zone)
    zones.set(name, zone)
    const place = placeOf(name, (outer) => {
      invalidate(outer)
      if (known === undefined) cut(outer, zone)
    })
    place.zone = zone
    if (known === undefined) for (const child of place.children.values()) inherit(zone, child)
  }

  /** Zones of ours that lie in a new one. */
  function inherit(outer: Zone, { zone, children }: ZoneNode): void {
    if (zone) cut(outer, zone)
    for (const child of children.values()) inherit(outer, child)
  }

  function close(name: string): void {
    const zone = zones.get(name)
    if (zone === undefined) return
    zones.delete(name)
    invalidate(zone)
    const place = placeOf(name, (outer) => {
      invalidate(outer)
      const node = nodeOf(outer, name)
      delete node.cut
      weigh(node, undefined, -1)
    })
    delete place.zone
    trim(root, labelsOf(name))
  }

  /** Calls `visit` for every zone around the name. */
  function placeOf(name: string, visit: (outer: Zone) => void): ZoneNode {
    let place = root
    for (const label of labelsOf(name).reverse()) {
      if (place.zone) visit(place.zone)
      let next = place.children.get(label)
      next ??= { children: new Map() }
      place.children.set(label, next)
      place = next
    }
    return place
  }

  function add({ key, zone: name, subnet, name: owner, record }: Plan['records'][number]): void {
    // What is told again is the same one.
    remove(key)
    const zone = zones.get(name) as Zone
    const view = subnet === '' ? undefined : views.take(subnet)
    const node = nodeOf(zone, owner)
    const stored = { ...record, view }
    node.records.push(stored)
    weigh(node, view, 1)
    held.set(key, { zone, node, record: stored })
    zone.records++
    invalidate(zone)
  }

  function remove(key: string): void {
    const one = held.get(key)
    if (one === undefined) return
    const { zone, node, record } = one
    held.delete(key)
    node.records.splice(node.records.indexOf(record), 1)
    weigh(node, record.view, -1)
    if (record.view) views.give(record.view)
    zone.records--
    invalidate(zone)
  }
}

function planOf(passages: readonly ZonePassage[]): Plan {
  const plan: Plan = { gone: { zones: [], records: [] }, zones: [], records: [] }
  for (const { before, after } of passages) {
    if (before?.kind === 'dns_zone') plan.gone.zones.push(nameOf(before.name))
    if (before?.kind === 'dns_record') plan.gone.records.push(before.key)
    if (after?.kind === 'dns_zone') {
      const name = nameOf(after.name)
      const csk = after.csk === undefined ? undefined : openCsk(name, after.csk)
      plan.zones.push({ name, soa: rdataOf('SOA', after.soa), soaTtl: ttlOf(after.soaTtl), csk })
    }
    if (after?.kind === 'dns_record') plan.records.push(plannedRecord(after))
  }
  return plan
}

function plannedRecord({ key, zone, name, type, ttl, value, subnet }: DnsRecord): Plan['records'][number] {
  const place = { zone: nameOf(zone), name: nameOf(name) }
  if (!isWithin(place.name, place.zone)) throw new Error(`${name} does not lie in ${zone}`)
  // Denial proves that there are none.
  if (labelsOf(place.name).includes('*')) throw new Error(`${name} is a wildcard: these are not served`)
  if (subnet !== '') parsePrefix(subnet)
  const code = TYPES.get(type) ?? 0
  return { key, ...place, subnet, record: { type: code, ttl: ttlOf(ttl), rdata: rdataOf(type, value) } }
}

function node(parent: Node | undefined, label: string): Node {
  return { parent, label, records: [], open: 0 }
}

/** Made where it is missing; `weigh` removes it again. */
function nodeOf(zone: Zone, name: string): Node {
  let at = zone.apex
  for (const label of labelsBelow(zone.name, name)) {
    at.children ??= new Map()
    let next = at.children.get(label)
    next ??= node(at, label)
    at.children.set(label, next)
    at = next
  }
  return at
}

function cut(outer: Zone, zone: Zone): void {
  const at = nodeOf(outer, zone.name)
  at.cut = zone
  weigh(at, undefined, 1)
}

/** Counts at a node and above. A node for nobody goes. */
function weigh(node: Node, view: View | undefined, by: 1 | -1): void {
  for (let at: Node | undefined = node; at; at = at.parent) {
    if (view === undefined) at.open += by
    else {
      at.scoped ??= new Map()
      const count = (at.scoped.get(view) ?? 0) + by
      if (count > 0) at.scoped.set(view, count)
      else at.scoped.delete(view)
      if (at.scoped.size === 0) delete at.scoped
    }
    if (at.open === 0 && at.scoped === undefined) at.parent?.children?.delete(at.label)
  }
}

/** Removes what is left of a name where no zone is any more. */
function trim(place: ZoneNode, labels: string[]): void {
  const label = labels.pop()
  const child = label === undefined ? undefined : place.children.get(label)
  if (label === undefined || child === undefined) return
  trim(child, labels)
  if (child.zone === undefined && child.children.size === 0) place.children.delete(label)
}
