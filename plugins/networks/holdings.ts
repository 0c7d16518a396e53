/** What networks keep for tenants: networks with what is bound in them, and public addresses. */
import type { Db, EventDraft, Ref } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import type { Gone, Holdings } from '../../core/tenancy.ts'
import { PAGE } from '../../core/transport/list.ts'
import { told, unclaim } from './claims.ts'
import { endpointRef } from './desired.ts'
import { queries } from './queries.ts'
import { removeRange } from './ranges.ts'
import { routedQueries } from './routed-queries.ts'
import { removeNetwork } from './rules.ts'
import type { ClaimRow, NetworkRow, RangeRow } from './tables.ts'

/** Addresses of a range that are looked at in one go. */
const STRETCH = 256

export const holdings: Holdings = {
  uses: {
    networks: (db, tenant) => queries(db).networkCountOf.get({ tenant })?.count ?? 0,
    endpoints: (db, tenant) => queries(db).boundCountOf.get({ tenant })?.count ?? 0,
    /** Those that are reserved to it, and those out of ranges for everybody that its networks have. */
    routed_addresses(db, tenant) {
      const q = routedQueries(db)
      return (q.reservedOf.get({ tenant })?.count ?? 0) + (q.sharedCountOf.get({ tenant })?.count ?? 0)
    },
  },
  remove: removeNetworksOf,
}

/** What went so far. Each ref is touched once: the pipeline compares each thing once. */
interface Going {
  touched: Map<string, Ref>
  events: EventDraft[]
}

/**
 * Takes everything of a tenant away, whoever uses it. Endpoints go with their network, without an event each; machines
 * lose the NICs that they had there.
 */
async function removeNetworksOf(tx: Db, tenant: string): Promise<Gone> {
  const going: Going = { touched: new Map(), events: [] }
  for (;;) {
    const page = queries(tx).networkPageOf.all({ tenant, after: '' })
    await nextTurn()
    await inSlices(page, (row) => removeInUse(tx, row, going))
    if (page.length < PAGE) break
  }
  await inSlices(routedQueries(tx).rangesOf.all({ tenant }), (row) => removeClaimed(tx, row, going))
  return { touch: [...going.touched.values()], events: going.events }
}

async function removeInUse(tx: Db, row: NetworkRow, going: Going): Promise<void> {
  const { net } = row
  for (;;) {
    const claims = routedQueries(tx).claimsOfNet.all({ net })
    for (const claim of claims) giveBack(tx, claim, going)
    if (claims.length < PAGE) break
    await nextTurn()
  }
  for (let address = 0; ; ) {
    const bound = queries(tx).boundAfter.all({ net, address })
    touch(going, bound.map(endpointRef))
    address = bound.at(-1)?.address ?? address
    if (bound.length < PAGE) break
    await nextTurn()
  }
  add(going, await removeNetwork(tx, row))
}

async function removeClaimed(tx: Db, row: RangeRow, going: Going): Promise<void> {
  for (let first = row.first; first <= row.last; first += STRETCH) {
    const claims = routedQueries(tx).claimsBetween.all({ first, last: Math.min(first + STRETCH - 1, row.last) })
    for (const claim of claims) giveBack(tx, claim, going)
    if (claims.length > 0) await nextTurn()
  }
  add(going, removeRange(tx, row))
}

function giveBack(tx: Db, row: ClaimRow, going: Going): void {
  going.events.push(told(tx, 'deleted', row))
  touch(going, unclaim(tx, row))
}

function add(going: Going, gone: Gone): void {
  touch(going, gone.touch)
  going.events.push(...gone.events)
}

function touch({ touched }: Going, refs: readonly Ref[]): void {
  for (const ref of refs) touched.set(ref.id, ref)
}

/** Others get their turn. */
const nextTurn = () => new Promise((turn) => setImmediate(turn))
