/**
 * What the cluster has acknowledged, held against what its members hold. A thing whose last change was acknowledged must be so; one
 * whose change was refused or cut off may be either way, until a look at the stores tells.
 */
import type { Row } from '../../core/replication.ts'
import { collections, type Rows } from './stores.ts'

export type Fate = 'present' | 'gone' | 'unknown'

export interface Thing {
  readonly collection: string
  /** Columns that its row has, as far as they are known. */
  row: Row
  /** It goes with that one. */
  readonly parent?: Thing
  /** Whom it was made by, and a change of it. */
  readonly made: string
  fate: Fate
  /** Somebody changes it: nobody else does meanwhile. */
  busy: boolean
  /** What became of it, for people. */
  readonly history: string[]
  /** performance.now() of when it became unknown what it is, and whether it was there when somebody looked first. */
  doubt?: { since: number; there?: boolean }
  /** It was taken over by another of the same key, after it was given up. */
  past?: boolean
}

export interface Model {
  readonly things: readonly Thing[]
  /** `late`: came into force after all held the same again. */
  readonly counts: { acknowledged: number; refused: number; unknown: number; late: number }
  /** What was wrong at the moment it was acknowledged: an address given twice, a name that somebody has. */
  readonly wrong: string[]
  /** Somewhere at random, such that nobody changes it. */
  pick(collection: string, random: () => number): Thing | undefined
  made(thing: Omit<Thing, 'fate' | 'busy' | 'history'>): void
  /** Wrong against the stores; what was unknown is known then. */
  check(rows: Rows): string[]
}

/** Columns beside the key that no two may share; ours, not the declaration's. */
const DISTINCT: Readonly<Record<string, readonly string[]>> = { tenants_tenants: ['name'], float_addresses: ['ip'] }

export function openModel(): Model {
  const things: Thing[] = []
  const wrong: string[] = []
  const counts = { acknowledged: 0, refused: 0, unknown: 0, late: 0 }
  /** By key and by what is distinct: who was acknowledged last. */
  const holders = new Map<string, Thing>()

  function* namesOf({ collection, row }: Pick<Thing, 'collection' | 'row'>): Generator<string> {
    yield `${collection} ${keyOf(collection, row)}`
    for (const column of DISTINCT[collection] ?? []) yield `${collection} ${column} ${row[column]}`
  }

  function take(thing: Thing): void {
    for (const name of namesOf(thing)) {
      const other = holders.get(name)
      holders.set(name, thing)
      if (other === undefined) continue
      if (other.fate === 'present' && !other.busy && !doomed(other))
        wrong.push(`${name}: given to ${other.made} (${other.history}), then to ${thing.made}`)
      other.past = true
    }
  }

  return {
    things,
    counts,
    wrong,
    pick(collection, random) {
      const some = things.filter(
        (one) => one.collection === collection && one.fate === 'present' && !one.busy && !one.past && !doomed(one),
      )
      return some[Math.floor(random() * some.length)]
    },
    made(given) {
      const thing: Thing = { ...given, fate: 'present', busy: false, history: [] }
      take(thing)
      things.push(thing)
    },
    check(rows) {
      const found = new Map<string, Row>()
      for (const [name, list] of rows) for (const row of list) found.set(`${name} ${keyOf(name, row)}`, row)
      const problems: string[] = []
      for (const thing of things) {
        if (thing.past) continue
        const row = found.get(`${thing.collection} ${keyOf(thing.collection, thing.row)}`)
        const there = row !== undefined && Object.entries(thing.row).every(([column, value]) => row[column] === value)
        // Nobody knows of a parent whose deletion was cut off, but it takes all along, or nothing.
        const should = thing.fate === 'present' && restsOnSome(thing, found)
        if (thing.fate !== 'unknown' && there !== should) {
          problems.push(
            `${thing.collection} ${JSON.stringify(thing.row)} by ${thing.made} should be ${should ? 'present' : 'gone'}, the stores have ${JSON.stringify(row)}`,
          )
        }
        if (thing.fate === 'unknown') {
          thing.doubt ??= { since: performance.now() }
          if (thing.doubt.there !== undefined && thing.doubt.there !== there && thing.parent === undefined)
            counts.late++
          thing.doubt.there = there
          if (performance.now() - thing.doubt.since < LATE_MS) continue
        }
        delete thing.doubt
        thing.fate = there ? 'present' : 'gone'
      }
      for (const [name, columns] of Object.entries(DISTINCT)) {
        for (const column of columns) {
          const values = (rows.get(name) ?? []).map((row) => row[column])
          if (new Set(values).size !== values.length) problems.push(`${name}: two have the same ${column}`)
        }
      }
      const spaces = (rows.get('ipam_pools') ?? []).map(
        ({ tenant_id, subnet }) => `${tenant_id} ${String(subnet).split('.', 3)}`,
      )
      if (new Set(spaces).size !== spaces.length) problems.push('ipam_pools: two of one tenant overlap')
      // What is gone can no more be lost.
      for (let at = things.length - 1; at >= 0; at--) {
        const thing = things[at]
        if (thing?.past || (thing?.fate === 'gone' && !(thing.collection in KEEP))) things.splice(at, 1)
      }
      return [...wrong.splice(0), ...problems]
    },
  }
}

/**
 * What a member could not say any more may wait in a line that was cut, and come into force when that is mended: etcd passes on what
 * was proposed, and gives a line up after five seconds without progress.
 */
const LATE_MS = 20_000

/** Ids that are never given again: what was deleted must stay so. */
const KEEP: Readonly<Record<string, true>> = { tenants_tenants: true, ipam_pools: true, tenants_keys: true }

/** What it goes with is gone, or may be. */
const doomed = ({ parent }: Thing): boolean =>
  parent !== undefined && (parent.fate !== 'present' || parent.busy || doomed(parent))

/** Whether what it goes with is there, and what that goes with. */
const restsOnSome = ({ parent }: Thing, found: ReadonlyMap<string, Row>): boolean =>
  parent === undefined ||
  (found.has(`${parent.collection} ${keyOf(parent.collection, parent.row)}`) && restsOnSome(parent, found))

function keyOf(name: string, row: Row): string {
  const key = collections.find((collection) => collection.name === name)?.key ?? []
  return JSON.stringify(key.map((column) => row[column]))
}
