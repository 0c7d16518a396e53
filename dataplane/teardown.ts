/**
 * Takes off this node what agents have put there, whoever of them it was: for an operator who is done with it. No agent
 * may run meanwhile, which would put it back. Reads nothing but the kernel and the run directory, so it works without a store.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { detachPinned } from './bpf/attach/attachments.ts'
import { Filters, removeFilters } from './bpf/attach/filters.ts'
import { pinsIn } from './bpf/bpffs.ts'
import { DAEMONS, endDaemon, type FrrPlaces, pidOf, removeTheirs } from './frr/session.ts'
import { NETLINK_ROUTE } from './netlink/bind.ts'
import { openNetlinkDriver } from './netlink/driver.ts'
import { deleteRoute, listRoutes } from './netlink/route.ts'
import { openNetlink } from './netlink/socket.ts'
import { openNft } from './nft/session.ts'
import { NFT_FAMILY, NFT_TABLE } from './numbers.ts'
import { findResponder } from './responder/session.ts'

export interface TeardownOptions {
  /** Area → the number that marks what is its in netlink. */
  owners: ReadonlyMap<string, number>
  /** Where agents pin. */
  bpfDir: string
  responderSocket: string
  frr: FrrPlaces
  /** An open file that the nft helper keeps open as long as it lives. */
  lock?: number
}

export interface Teardown {
  /** How many of what, in the order in which they went; what there was none of is not listed. */
  removed: Record<string, number>
  /** What could not be removed, in sentences. Everything else was tried all the same. */
  problems: string[]
}

/** In family `bridge` stands the gate of the workload ports. */
const TABLES = [`${NFT_FAMILY} ${NFT_TABLE}`, `bridge ${NFT_TABLE}`]
/** Folders in which links are pinned, at any depth below the bpf directory. */
const LINK_FOLDERS: ReadonlySet<string> = new Set(['links', 'sockets'])
/** RTPROT_BGP of linux/rtnetlink.h: what zebra installs for bgpd. */
const RTPROT_BGP = 186
/** zebra takes the routes of a bgpd that has ended in milliseconds. */
const WITHDRAWAL_MS = 5000

/** Never rejects: what fails is a problem, and the rest goes on. */
export async function takeOff(options: TeardownOptions): Promise<Teardown> {
  const removed: Record<string, number> = {}
  const problems: string[] = []
  const count = (what: string, number = 1) => {
    if (number > 0) removed[what] = (removed[what] ?? 0) + number
  }
  // Who brings things into the kernel comes first; programs go before the devices that they send to.
  const steps = [endResponder, endFrr, detachPrograms, removeOurFilters, removeNetlink, deleteTables]
  for (const step of steps) {
    try {
      await step(options, count)
    } catch (error) {
      problems.push((error as Error).message)
    }
  }
  return { removed, problems }
}

type Step = (options: TeardownOptions, count: (what: string, number?: number) => void) => Promise<void>

const endResponder: Step = async ({ responderSocket }, count) => {
  const quiet = { onLost() {}, onLeases() {}, onWaiting() {}, onProblem() {} }
  const session = await findResponder(responderSocket, quiet)
  if (session === undefined) return rmSync(responderSocket, { force: true })
  await session.ask({ do: 'stop' }).catch(() => {})
  session.close()
  const end = performance.now() + WITHDRAWAL_MS
  while (existsSync(`/proc/${session.pid}`) && performance.now() < end) await wait(20)
  if (existsSync(`/proc/${session.pid}`)) throw new Error(`the responder (pid ${session.pid}) does not end: kill it`)
  rmSync(responderSocket, { force: true })
  count('process that answers DNS and DHCP')
}

const endFrr: Step = async ({ frr }, count) => {
  const running = DAEMONS.filter((name) => pidOf(frr, name) !== undefined)
  const hadZebra = running.includes('zebra')
  const route = openNetlink(NETLINK_ROUTE)
  const left = () => listRoutes(route, { protocol: RTPROT_BGP })
  try {
    for (const name of [...DAEMONS].reverse()) {
      // zebra keeps what it knows when it ends, so it is the last, and not before it has heard that bgpd is gone.
      const end = performance.now() + WITHDRAWAL_MS
      while (name === 'zebra' && hadZebra && performance.now() < end && (await left()).length > 0) await wait(20)
      await endDaemon(frr, name)
    }
    // Only beside a zebra of ours: where none ran they are those of another speaker.
    if (hadZebra) for (const stale of await left()) await route.command(deleteRoute(stale))
  } finally {
    await route.close()
  }
  const parent = dirname(frr.runDir)
  const files = existsSync(parent) ? readdirSync(parent).filter((name) => name.startsWith(basename(frr.runDir))) : []
  await removeTheirs(files.map((name) => join(parent, name)))
  count('processes of FRR', running.length)
}

const detachPrograms: Step = async ({ bpfDir }, count) => {
  for (const pin of pinnedLinks(bpfDir)) {
    // The kernel ends a link that only loses its pin some time later.
    await detachPinned(pin)
    count('attached eBPF programs')
  }
  rmSync(bpfDir, { recursive: true, force: true })
}

/** Paths of what is pinned in folders of links, of whatever layout, below `dir`. */
function pinnedLinks(dir: string): string[] {
  return pinsIn(dir).flatMap((name) => {
    const path = join(dir, name)
    return LINK_FOLDERS.has(basename(dir)) ? [path] : pinnedLinks(path)
  })
}

/** Programs that hang on devices by filters: those of others stay, and a qdisc in which they are. */
const removeOurFilters: Step = async (_options, count) => {
  const problems: unknown[] = []
  const filters = new Filters(openNetlink(NETLINK_ROUTE), (error) => void problems.push(error))
  try {
    count('attached eBPF programs', await removeFilters(filters))
  } finally {
    await filters.close()
  }
  if (problems.length > 0) throw problems[0]
}

const removeNetlink: Step = async ({ owners }, count) => {
  const problems: unknown[] = []
  const driver = await openNetlinkDriver({ owners, onProblem: (error) => void problems.push(error) })
  try {
    const ours = await driver.observe([])
    await driver.apply(
      ours.map((before) => ({ before })),
      'restore',
    )
    const left = new Set((await driver.observe([])).map(({ key }) => key))
    for (const { kind, key } of ours) if (!left.has(key)) count(`netlink: ${kind.replaceAll('_', ' ')}`)
    if (left.size > 0) throw new Error(`these are still there: ${[...left].slice(0, 20).join(', ')}`)
  } finally {
    await driver.close()
  }
  if (problems.length > 0) throw problems[0]
}

const deleteTables: Step = async ({ lock }, count) => {
  const nft = await openNft(lock)
  try {
    const present = (await nft.run('list tables\n')).split('\n')
    const ours = TABLES.filter((name) => present.includes(`table ${name}`))
    if (ours.length > 0) await nft.run(ours.map((name) => `delete table ${name}\n`).join(''))
    count('nft tables', ours.length)
  } finally {
    await nft.close()
  }
}
