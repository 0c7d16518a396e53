/** Loads the programs of `br-work`, takes over what an earlier agent pinned, and joins the parts. */
import { existsSync } from 'node:fs'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import type { Netlink } from '../../netlink/socket.ts'
import type { Kernel } from '../../nft/spelling.ts'
import type { Attaching } from '../attach/attaching.ts'
import { ensureBpffs, KEPT, layoutDir, layouts, removeLayout, retire } from '../bpffs.ts'
import { roomFor } from '../flow/room.ts'
import { openTraffic, type Traffic } from '../flow/traffic.ts'
import { type BpfObject, openObject } from '../object.ts'
import { PinFolders } from '../pinned.ts'
import { openRing } from '../ringbuf.ts'

import { Bindings } from './bindings.ts'
import { Claims, claimEvent, type PortClaim } from './claims.ts'
import { type KindOwners, type PortDriver, portDriver } from './driver.ts'
import type { Binding } from './entries.ts'
import { openGate } from './gate.ts'
import { Guard } from './guard.ts'
import { PortLinks, portKind, type Role } from './links.ts'
import { HOOKS, PORT_OBJECT, type PortMaps, portMaps, QUEUE_HOOKS } from './maps.ts'
import { Named } from './named.ts'
import { TALLY_CLAIM_UNTOLD, TALLY_CLAIMED } from './numbers.ts'
import { PortTable } from './ports.ts'
import { type ReasonName, reasonName } from './reason.ts'
import { openSearch } from './search.ts'
import { type Account, SlotTable } from './slot_table.ts'
import { sharedTables } from './tables.ts'
import { decodeViolation, type Violation } from './violation.ts'

export interface PortState {
  name: string
  ifindex: number
  role: Role
  /** Number of the net it belongs to; 0 while it is open. */
  net: number
}

/** A violation, and the port by its name; '' when it has gone meanwhile. */
export type PortViolation = Violation & { port: string }

/** The ports of `br-work` as they are. */
export interface Ports {
  list(): PortState[]
  /** Resolves when every device that the bridge has now is guarded, as far as it can be. @throws KernelError */
  settled(): Promise<void>
  /** What passed to and from a binding since it was made, by the key of its entry. */
  account(key: string): Account | undefined
  /** Name of the guarded port at which a bound MAC of a net was seen last; undefined when it was not, or the port is gone. */
  seenAt(net: number, mac: string): string | undefined
  /** Frames that were dropped, by reason, since the maps were made. */
  drops(): { reason: ReasonName; frames: bigint }[]
  /** Calls `listener` for every violation that is told; returns how to stop that. */
  onViolation(listener: (violation: PortViolation) => void): () => void
  /**
   * Calls `listener` for every endpoint that took another port in the place of its former one, and for every one that
   * shall keep the first; returns how to stop that.
   */
  onClaim(listener: (claim: PortClaim) => void): () => void
}

/** Programs that are not loaded: there is nothing to tell. */
export const NO_PORTS: Ports = {
  list: () => [],
  settled: async () => {},
  account: () => undefined,
  seenAt: () => undefined,
  drops: () => [],
  onViolation: () => () => {},
  onClaim: () => () => {},
}

export interface PortOptions {
  /** Directory on a bpf filesystem for the pins of this agent. */
  root: string
  route: Netlink
  nft: Kernel
  attaching: Attaching
  owners: KindOwners
  /** Something could not be guarded: it carries nothing until it can. */
  onProblem(error: unknown): void
}

export interface OpenPorts {
  driver: PortDriver
  ports: Ports
  traffic: Traffic
  /** The loaded programs, and where their maps are pinned; valid until the driver is closed. */
  programs: Programs
}

/** The loaded programs of br-work, where their maps are pinned, and the number by which their stubs know them. */
export interface Programs {
  object: BpfObject
  dir: string
  set: number
}

/** @throws Error that says what the operator must do; KernelError */
export async function openPorts(options: PortOptions): Promise<OpenPorts> {
  ensureBpffs(options.root)
  retireStubs(options.root)
  const dir = layoutDir(options.root)
  const object = openObject(PORT_OBJECT, { pinDir: dir, rows: roomFor(dir, totalmem()), keepIn: join(dir, KEPT) })
  await object.load()
  const maps = portMaps(object)
  // The stubs that hang on the ports go on to these from the next frame on.
  for (const [name, slot] of Object.entries({ ...HOOKS, ...QUEUE_HOOKS }))
    await maps.programs.swap(slot, object.program(name).fd)
  const table = new PortTable(maps.ports)
  const slots = new SlotTable(maps.slots)
  const bindings = new Bindings(maps.byMac, slots)
  const named = new Named()
  const claims = new Claims((endpoint) => bindings.home(endpoint))
  const { attaching } = options
  const set = maps.programs.info.id
  const guard: Guard = new Guard({
    route: options.route,
    links: new PortLinks(attaching.of(portKind(dir, set)), object),
    gate: openGate(options.nft),
    ports: table,
    uplinks: () => named.uplinks(),
    overlay: (port) => named.overlay(port),
    netOf: (port) => named.net(port),
    own: (leg) => maps.hosts.set(0, leg),
    known: (devices) => claims.note(devices),
    changed: (names) => driver.portsChanged(names),
    replaced: (ifindexes) => bindings.leave(ifindexes),
    onProblem: options.onProblem,
  })
  const deaf = attaching.onChange((ifindex) => guard.doubt(ifindex))
  const search = openSearch({
    found: (binding) => !bindings.has(binding.key) || table.net(bindings.home(binding)) === binding.net,
    openPorts: () => guard.list().filter(({ ifindex, role }) => role === 'workload' && table.net(ifindex) === 0),
    onProblem: options.onProblem,
  })
  const parts = { tables: sharedTables(maps), bindings, guard, named, owners: options.owners }
  const refill = (bucket: number) => maps.buckets.set(bucket, { up: 0n, down: 0n })
  const kept = ({ net, mac }: Binding, ifindex: number) => claims.tell({ net, mac, ifindex, from: undefined })
  const driver = portDriver({ ...parts, refill, missing: search.begin, kept })
  const folders = new PinFolders([dir, join(dir, 'links')])
  const listeners = new Set<(violation: PortViolation) => void>()
  const missed = untold(maps, () => driver.tellKept().catch(options.onProblem))
  const ring = openRing(maps.events, (record) => {
    missed()
    if (record.readUInt32LE(claimEvent.fields.kind[0]) === TALLY_CLAIMED) {
      const { from, ...claim } = claimEvent.decode(record, 0)
      return claims.tell({ ...claim, from: from === 0 ? undefined : from })
    }
    const violation = decodeViolation(record)
    const port = guard.list().find(({ ifindex }) => ifindex === violation.ifindex)?.name ?? ''
    for (const listener of listeners) listener({ ...violation, port })
  })
  return {
    driver: {
      ...driver,
      hold: () =>
        folders.hold(async () => {
          object.pinAgain()
          await guard.sync()
        }),
      async observe(desired) {
        object.pinAgain()
        const observed = await driver.observe(desired)
        // Every port has the programs of this layout by now; those of an earlier one would judge a second time.
        for (const layout of layouts(options.root)) if (!dir.endsWith(`/v${layout}`)) removeLayout(options.root, layout)
        return observed
      },
      async close() {
        deaf()
        ring.close()
        search.close()
        await driver.close()
        table.close()
        slots.close()
        object.close()
      },
    },
    programs: { object, dir, set },
    ports: {
      list: () =>
        guard.list().map(({ name, ifindex, role }) => ({ name, ifindex, role, net: table.net(ifindex) ?? 0 })),
      settled: () => guard.sync(),
      account: (key) => bindings.account(key),
      seenAt(net, mac) {
        const home = bindings.home({ net, mac })
        return home === 0 ? undefined : guard.list().find(({ ifindex }) => ifindex === home)?.name
      },
      drops: () => drops(maps),
      onViolation(listener) {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
      onClaim: (listener) => claims.listen(listener),
    },
    traffic: openTraffic(maps),
  }
}

/**
 * Stubs go on from the map `programs`. Where somebody has removed its pin, they go on from one that nobody can open any
 * more, by what was known then: they are kept like those of another layout, until stubs of this agent are in their place.
 */
function retireStubs(root: string): void {
  if (!existsSync(join(layoutDir(root), 'programs'))) retire(root, ['links', 'queues'])
}

/**
 * Returns what to call at every record of the ring: `ask` is called when the program could not tell of a claim since the
 * record before, which happens when the ring is full.
 */
function untold({ tallies }: Pick<PortMaps, 'tallies'>, ask: () => unknown): () => void {
  const count = () => (tallies.get(TALLY_CLAIM_UNTOLD) ?? []).reduce((sum, one) => sum + one, 0n)
  let seen = count()
  return () => {
    const now = count()
    if (now !== seen) ask()
    seen = now
  }
}

function drops({ tallies }: Pick<PortMaps, 'tallies'>): { reason: ReasonName; frames: bigint }[] {
  return Array.from(tallies.entries(), ([number, counts]) => ({
    reason: reasonName(number),
    frames: counts.reduce((sum, count) => sum + count, 0n),
  })).flatMap(({ reason, frames }) => (reason === undefined ? [] : [{ reason, frames }]))
}
