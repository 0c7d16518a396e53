/** Loads the programs of `br-work`, takes over what an earlier agent pinned, and joins the parts. */
import { totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Netlink } from '../../netlink/socket.ts'
import type { Kernel } from '../../nft/spelling.ts'
import { ensureBpffs, layoutDir, layouts, removeLayout } from '../bpffs.ts'
import { roomFor } from '../flow/room.ts'
import { openTraffic, type Traffic } from '../flow/traffic.ts'
import { type BpfObject, openObject } from '../object.ts'
import { openRing } from '../ringbuf.ts'
import { Bindings } from './bindings.ts'
import { type KindOwners, type PortDriver, portDriver } from './driver.ts'
import { openGate } from './gate.ts'
import { Guard } from './guard.ts'
import { PortLinks, type Role } from './links.ts'
import { HOOKS, PORT_OBJECT, type PortMaps, portMaps, QUEUE_HOOKS } from './maps.ts'
import { Named } from './named.ts'
import { PortTable } from './ports.ts'
import { type ReasonName, reasonName } from './reason.ts'
import { openSearch } from './search.ts'
import { type Account, SlotTable } from './slot_table.ts'
import { sharedTables } from './tables.ts'
import { decodeViolation, type Violation } from './violation.ts'

/** Between two looks at which ports became nobody's: one look reads all bound MACs. */
const REOPEN_MS = 1000

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
  /** Frames that were dropped, by reason, since the maps were made. */
  drops(): { reason: ReasonName; frames: bigint }[]
  /** Calls `listener` for every violation that is told; returns how to stop that. */
  onViolation(listener: (violation: PortViolation) => void): () => void
}

/** Programs that are not loaded: there is nothing to tell. */
export const NO_PORTS: Ports = {
  list: () => [],
  settled: async () => {},
  account: () => undefined,
  drops: () => [],
  onViolation: () => () => {},
}

export interface PortOptions {
  /** Directory on a bpf filesystem for the pins of this agent. */
  root: string
  route: Netlink
  nft: Kernel
  owners: KindOwners
  /** Something could not be guarded: it carries no private traffic until it can. */
  onProblem(error: unknown): void
}

export interface OpenPorts {
  driver: PortDriver
  ports: Ports
  traffic: Traffic
  /** The loaded programs, and where their maps are pinned; valid until the driver is closed. */
  programs: { object: BpfObject; dir: string }
}

/** @throws Error that says what the operator must do; KernelError */
export async function openPorts(options: PortOptions): Promise<OpenPorts> {
  ensureBpffs(options.root)
  const dir = layoutDir(options.root)
  const object = openObject(PORT_OBJECT, { pinDir: dir, rows: roomFor(dir, totalmem()) })
  await object.load()
  const maps = portMaps(object)
  // The stubs that hang on the ports go on to these from the next frame on.
  for (const [name, slot] of Object.entries({ ...HOOKS, ...QUEUE_HOOKS }))
    await maps.programs.swap(slot, object.program(name).fd)
  const table = new PortTable(maps.ports)
  const slots = new SlotTable(maps.slots)
  const bindings = new Bindings(maps.byMac, slots)
  const named = new Named()
  const guard: Guard = new Guard({
    route: options.route,
    links: new PortLinks(dir, object),
    gate: openGate(options.nft),
    ports: table,
    uplinks: () => named.uplinks(),
    overlay: (port) => named.overlay(port),
    netOf: (port) => named.net(port),
    changed: (names) => driver.portsChanged(names),
    onProblem: options.onProblem,
  })
  const released = reopening(bindings, guard, options.onProblem)
  const search = openSearch({
    found: (binding) => bindings.home(binding) !== 0 || !bindings.has(binding.key),
    openPorts: () => guard.list().filter(({ ifindex, role }) => role === 'workload' && table.net(ifindex) === 0),
    onProblem: options.onProblem,
  })
  const parts = { tables: sharedTables(maps), bindings, guard, named, owners: options.owners, released }
  const refill = (bucket: number) => maps.buckets.set(bucket, { up: 0n, down: 0n })
  const driver = portDriver({ ...parts, refill, missing: search.begin })
  const listeners = new Set<(violation: PortViolation) => void>()
  const ring = openRing(maps.events, (record) => {
    const violation = decodeViolation(record)
    const port = guard.list().find(({ ifindex }) => ifindex === violation.ifindex)?.name ?? ''
    for (const listener of listeners) listener({ ...violation, port })
  })
  return {
    driver: {
      ...driver,
      async observe(desired) {
        const observed = await driver.observe(desired)
        // Every port has the programs of this layout by now; those of an earlier one would judge a second time.
        for (const layout of layouts(options.root)) if (!dir.endsWith(`/v${layout}`)) removeLayout(options.root, layout)
        return observed
      },
      async close() {
        ring.close()
        search.close()
        await driver.close()
        table.close()
        slots.close()
        object.close()
      },
    },
    programs: { object, dir },
    ports: {
      list: () =>
        guard.list().map(({ name, ifindex, role }) => ({ name, ifindex, role, net: table.net(ifindex) ?? 0 })),
      settled: () => guard.sync(),
      account: (key) => bindings.account(key),
      drops: () => drops(maps),
      onViolation(listener) {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
    },
    traffic: openTraffic(maps),
  }
}

/** Returns what to call when a MAC was unbound: soon after, ports that have none left are opened. */
function reopening(bindings: Bindings, guard: Guard, onProblem: (error: unknown) => void): () => void {
  let [due, busy] = [false, false]
  const look = async () => {
    while (due) {
      // After the change that is under way.
      await new Promise(setImmediate)
      due = false
      guard.reopen(await bindings.homes())
      await sleep(REOPEN_MS, undefined, { ref: false })
    }
  }
  return () => {
    due = true
    if (busy) return
    busy = true
    look()
      .catch(onProblem)
      .finally(() => {
        busy = false
      })
  }
}

function drops({ tallies }: Pick<PortMaps, 'tallies'>): { reason: ReasonName; frames: bigint }[] {
  return Array.from(tallies.entries(), ([number, counts]) => ({
    reason: reasonName(number),
    frames: counts.reduce((sum, count) => sum + count, 0n),
  })).flatMap(({ reason, frames }) => (reason === undefined ? [] : [{ reason, frames }]))
}
