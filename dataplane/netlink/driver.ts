/**
 * The netlink driver: links, bridge members, addresses, routes, policy rules, neighbours and forwarding of VXLAN. What is ours carries the
 * number or name of its area in the kernel itself, so a new agent finds it; whatever does not is never touched.
 *
 * The kernel knows no transactions here. `apply` undoes what it did when something is refused, in reverse.
 */
import { release } from 'node:os'
import { type Claim, openAnnouncer } from '../announce/announcer.ts'
import type { Entry, Passage, Undo } from '../entry.ts'
import { KernelError } from '../libc.ts'
import { type ApplyMode, type Driver, KernelRefusal, type Pending, UncertainOutcome } from '../plane.ts'
import { stepwise } from '../slices.ts'
import { Journal } from './apply/journal.ts'
import { type Move, perform } from './apply/perform.ts'
import { asError, noSuchLink, type Refused, refusedFor } from './apply/refusal.ts'
import { Scene } from './apply/scene.ts'
import { NETLINK_ROUTE } from './bind.ts'
import { identityOf, isNetlink, linksOf, NETLINK_KINDS, type NetlinkEntry } from './entries.ts'
import { involved, Ledger } from './ledger.ts'
import { setLink } from './link.ts'
import { getDetails } from './link-detail.ts'
import {
  type Monitor,
  openMonitor,
  RTNLGRP_IPV4_IFADDR,
  RTNLGRP_IPV4_ROUTE,
  RTNLGRP_IPV4_RULE,
  RTNLGRP_IPV6_IFADDR,
  RTNLGRP_IPV6_ROUTE,
  RTNLGRP_IPV6_RULE,
  RTNLGRP_LINK,
  RTNLGRP_NEIGH,
} from './monitor.ts'
import { observeAll } from './observation.ts'
import { type Netlink, openNetlink } from './socket.ts'
import { standsOtherwise } from './verify.ts'
import { Watch } from './watch.ts'

/** Largest index of a link: one that no kernel gives out. */
const MAX_INDEX = 0x7fffffff

const GROUPS = [
  RTNLGRP_LINK,
  RTNLGRP_NEIGH,
  RTNLGRP_IPV4_IFADDR,
  RTNLGRP_IPV6_IFADDR,
  RTNLGRP_IPV4_ROUTE,
  RTNLGRP_IPV6_ROUTE,
  RTNLGRP_IPV4_RULE,
  RTNLGRP_IPV6_RULE,
]

export interface NetlinkDriver extends Driver {
  /** What shall be in force and is not, because the kernel refused it when it was restored. */
  pending(): Pending[]
  changedByOthers(): Promise<boolean>
}

export interface NetlinkOptions {
  /** Area → its number in the kernel, 1 to 255, unique. */
  owners: ReadonlyMap<string, number>
  /** Told of what goes wrong outside any change. */
  onProblem?: (error: unknown) => void
  /** Test seam: sees the messages that the driver sends. */
  openSocket?: () => Netlink
}

/** The first Linux that tells who made an address (IFA_PROTO). */
const OLDEST = [5, 18] as const

/**
 * Opens the driver in the network namespace of the calling thread, where it stays. Rejects with a sentence for the
 * operator where it could not do its work.
 */
export async function openNetlinkDriver(options: NetlinkOptions): Promise<NetlinkDriver> {
  const [major = 0, minor = 0] = release().split('.').map(Number.parseFloat)
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new Error(`links, addresses and routes need Linux ${OLDEST.join('.')}, this is ${release()}`)
  }
  const driver = netlinkDriver(options)
  try {
    await driver.probe()
    return driver
  } catch (error) {
    await driver.close()
    throw error
  }
}

function netlinkDriver({
  owners,
  onProblem = () => {},
  openSocket,
}: NetlinkOptions): NetlinkDriver & { probe(): Promise<void> } {
  const netlink = openSocket?.() ?? openNetlink(NETLINK_ROUTE)
  const areas = new Map(Array.from(owners, ([area, owner]) => [owner, area]))
  const ledger = new Ledger()
  const announcer = openAnnouncer({ look: (names) => getDetails(netlink, names), onProblem })
  const watch = new Watch({
    ledger,
    areas,
    port: () => netlink.port(),
    onAddress(identity, gone) {
      const claim = gone ? undefined : claimOf(ledger.held(identity))
      if (gone) announcer.release(identity)
      else if (claim) announcer.claim(claim)
    },
  })
  const monitor: Monitor = openMonitor({
    protocol: NETLINK_ROUTE,
    groups: GROUPS,
    onMessage(message) {
      watch.hear(message)
      announcer.hear(message)
    },
    onOverflow: () => watch.lose(),
    onError: () => watch.blind(),
  })
  const scene = (journal = new Journal()) => new Scene(netlink, journal, owners)

  async function observe(desired: readonly Entry[]): Promise<NetlinkEntry[]> {
    return whilePaused(new Set(), async () => {
      const { links, entries } = await observeAll(netlink, areas)
      watch.adoptLinks(links)
      const wanted = desired.filter(isNetlink)
      const coming = new Set(wanted.flatMap((entry) => (entry.kind === 'link' ? involved(entry) : [])))
      const adopted = await stepwise(ledger.adopt(entries, wanted, (entry) => whyNot(entry, coming)))
      announcer.adopt([...ledger.all()].flatMap((entry) => claimOf(entry) ?? []))
      watch.settle()
      return adopted
    })
  }

  /** Why an entry cannot be there now: its device is gone, or down, and none of `coming`, which the agent makes. */
  function whyNot(entry: NetlinkEntry, coming: ReadonlySet<string>): Refused | undefined {
    if (entry.kind === 'route' && entry.link === undefined) return undefined
    const others = linksOf(entry).filter((name) => !coming.has(name))
    const missing = others.find((name) => watch.link(name) === undefined)
    if (missing !== undefined) return noSuchLink(entry, missing)
    const down = entry.kind === 'route' ? others.find((name) => !watch.link(name)?.up) : undefined
    return down === undefined ? undefined : refusedFor(new Error(`interface ${down} is down`), entry)
  }

  async function apply(diff: readonly Passage[], mode: ApplyMode = 'change'): Promise<Undo> {
    const journal = new Journal()
    const work = scene(journal)
    const touched = touchedBy(diff)
    await whilePaused(touched, async () => {
      try {
        await carry(diff, mode, work)
      } catch (error) {
        const told = await takenBack(journal, error)
        await heal(work.disturbed)
        throw told
      }
      await heal(work.disturbed)
    })
    return () =>
      whilePaused(touched, async () => {
        try {
          await journal.rollback()
        } catch (cause) {
          throw new UncertainOutcome('a change of links, addresses or routes could not be undone', { cause })
        }
        await heal(work.disturbed)
      })
  }

  /**
   * Puts back what is ours and the kernel took away with a link, or with the last address of one. What cannot be put back
   * is found by the next pass, as if others had taken it.
   */
  async function heal(links: ReadonlySet<string>): Promise<void> {
    if (links.size === 0) return
    const lost = [...ledger.all()].filter((it) => it.kind !== 'link' && linksOf(it).some((name) => links.has(name)))
    const order = { scene: scene(), moves: lost.map((after) => ({ after })), policies: () => [], strict: false }
    await perform(order).catch(() => watch.mark())
  }

  /** What the kernel tells of a change is told by the time it answers, and is judged when all of the change is done. */
  async function whilePaused<T>(touched: ReadonlySet<string>, work: () => Promise<T>): Promise<T> {
    monitor.drain()
    watch.pause()
    try {
      return await work()
    } finally {
      monitor.drain()
      watch.resume(touched)
    }
  }

  async function carry(diff: readonly Passage[], mode: ApplyMode, work: Scene): Promise<void> {
    const order = {
      scene: work,
      moves: diff.flatMap((passage) => moveOf(passage)),
      policies: () => [...ledger.all()].filter((entry) => entry.kind === 'policy'),
      strict: mode === 'change',
    }
    const refused = await perform(order)
    const [first] = refused
    if (first && order.strict) throw asError(first)
    const wanted = new Set(diff.map(({ after }) => after?.key))
    const kept = refused.find(({ entry }) => !wanted.has(entry.key))
    // A removal has nothing to sleep for.
    if (kept) throw asError(kept)
    record(diff, refused, work.journal)
  }

  /** What sleeps is not in the kernel, whatever the difference says. */
  function moveOf({ before, after }: Passage): Move[] {
    const wanted = after && isNetlink(after) ? after : undefined
    const old = before && isNetlink(before) ? before : undefined
    const stands = old && ledger.sleeps(old.key) ? ledger.standing(old.key) : old
    if (wanted === undefined && stands === undefined) return []
    return [{ ...(stands && { before: stands }), ...(wanted && { after: wanted }) }]
  }

  function record(diff: readonly Passage[], refused: readonly Refused[], journal: Journal): void {
    const asleep = new Map(refused.map((it) => [it.entry.key, it]))
    const memory = diff.flatMap(({ before, after }) => {
      const keys = new Set([before, after].flatMap((entry) => entry?.key ?? []))
      return [...keys].map((key) => ledger.remember(key))
    })
    journal.add(async () => {
      for (const restore of memory.toReversed()) restore()
    })
    const gone = diff.flatMap(({ before, after }) => (before && after === undefined ? before.key : []))
    for (const key of gone) ledger.drop(key)
    const free = new Set(gone.map(identityOf))
    if (ledger.wake(({ key }) => free.has(identityOf(key)))) watch.mark()
    for (const { after } of diff) {
      if (after === undefined || !isNetlink(after)) continue
      const why = asleep.get(after.key)
      if (why) ledger.sleep(why)
      else ledger.hold(after)
    }
  }

  async function changedByOthers(): Promise<boolean> {
    monitor.drain()
    if (watch.changed) return true
    const suspects = watch.takeSuspects()
    if (suspects.length > 0 && (await standsOtherwise(scene(), ledger, suspects))) watch.mark()
    return watch.changed
  }

  /** A change of a link that cannot exist: whether changes are permitted is decided before. */
  async function probe(): Promise<void> {
    const [error] = await netlink.request([setLink(MAX_INDEX, { up: true })])
    if (error?.code === 'EPERM') throw new Error('links, addresses and routes need CAP_NET_ADMIN')
  }

  return {
    name: 'netlink',
    probe,
    kinds: NETLINK_KINDS,
    observe,
    apply,
    changedByOthers,
    pending: () => ledger.pending(),
    async close() {
      announcer.close()
      monitor.close()
      await netlink.close()
    },
  }
}

/** What the neighbours are told of an address that moves. */
function claimOf(entry: NetlinkEntry | undefined): Claim | undefined {
  if (entry?.kind !== 'address' || !entry.floating) return undefined
  return { key: identityOf(entry.key), link: entry.link, address: entry.address }
}

/** Links that a change is about, and what it is about as the kernel tells it apart. */
function touchedBy(diff: readonly Passage[]): Set<string> {
  const entries = diff.flatMap(({ before, after }) => [before, after]).filter((entry) => entry !== undefined)
  const links = entries.filter(isNetlink).filter(({ kind }) => kind === 'link' || kind === 'member')
  return new Set([...links.flatMap(involved), ...entries.map(({ key }) => identityOf(key))])
}

/** Takes back what was done, and returns what to tell the caller. */
async function takenBack(journal: Journal, error: unknown): Promise<unknown> {
  try {
    await journal.rollback()
  } catch (cause) {
    return new UncertainOutcome('netlink refused, and what came before it could not be undone', { cause })
  }
  return error instanceof KernelError ? new KernelRefusal(error.message, { cause: error }) : error
}
