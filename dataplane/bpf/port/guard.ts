/**
 * Keeps every device of `br-work` under the programs, whoever put it there: follows the bridge and its ports, attaches and
 * detaches, and keeps the rows that say which ports are guarded.
 *
 * A port is opened to frames past the bridge (its row) and over the bridge (the gate) only after both its programs stand,
 * and closed the other way round. One that cannot be guarded carries nothing; while br-work itself cannot be, no port does.
 */
import { KernelError } from '../../libc.ts'
import { NETLINK_ROUTE } from '../../netlink/bind.ts'
import { decodeLink, type Link, listLinks, RTM_DELLINK, RTM_NEWLINK } from '../../netlink/link.ts'
import { type Monitor, openMonitor, RTNLGRP_LINK } from '../../netlink/monitor.ts'
import type { Netlink } from '../../netlink/socket.ts'
import type { Received } from '../../netlink/wire.ts'
import { PORT_OVERLAY, PORT_UPLINK, WORK_BRIDGE } from '../../numbers.ts'
import { type Gate, isSpelled } from './gate.ts'
import { carriesNothing, type Guarded, legOf, sidesOf, Unguardable } from './guarded.ts'
import type { PortLinks, Present } from './links.ts'
import type { PortTable } from './ports.ts'
import { Rounds } from './rounds.ts'
import { Successors } from './successors.ts'

/** Both bits: an overlay leads off the node, too. Unsigned. */
const OVERLAY = (PORT_UPLINK | PORT_OVERLAY) >>> 0

export interface GuardParts {
  route: Netlink
  links: Pick<PortLinks, 'present' | 'attach' | 'detach'>
  gate: Gate
  ports: Pick<PortTable, 'net' | 'is' | 'set' | 'replace' | 'delete' | 'entries'>
  /** Names of the ports that lead off the node, other than overlays. */
  uplinks(): ReadonlySet<string>
  /** Number of the net that an overlay carries, 0 for none; undefined for every other port. */
  overlay(port: string): number | undefined
  /** Number of the net that a port is declared for; undefined when its net is claimed by the frames that come in. */
  netOf(port: string): number | undefined
  /** br-work is this device by now; index 0 and no MAC while there is none that is guarded. */
  own(leg: { ifindex: number; mac: string }): void
  /** Devices that will be guarded, by their names of now. Told first: the programs tell of a port from its row on. */
  known(devices: Iterable<Guarded>): void
  /** Ports of these names came or went. */
  changed(names: readonly string[]): void
  /** The devices of these ifindexes are others than before: nobody is there any more. Nothing passes by them meanwhile. */
  replaced(ifindexes: ReadonlySet<number>): Promise<void>
  /** Something could not be guarded: it carries nothing until it can. */
  onProblem(error: unknown): void
}

export class Guard {
  readonly #parts: GuardParts
  readonly #monitor: Monitor
  #guarded = new Map<number, Guarded>()
  #byName = new Map<string, Guarded>()
  readonly #mended = new Set<string>()
  /** Names of ports that came or went and were not told of: something failed since. */
  #touched = new Set<string>()
  #refused = new Map<string, string>()
  #bridge: number | undefined
  readonly #successors = new Successors()
  /** Everything was brought in order before: what is missing since, somebody has taken away. */
  #settled = false
  readonly #rounds: Rounds

  constructor(parts: GuardParts) {
    this.#parts = parts
    this.#rounds = new Rounds(() => this.#bring(), parts.onProblem)
    this.#monitor = openMonitor({
      protocol: NETLINK_ROUTE,
      groups: [RTNLGRP_LINK],
      onMessage: (message) => this.#concerns(message) && this.#rounds.soon(),
      onOverflow: () => {
        this.#successors.deaf()
        this.#rounds.soon()
      },
      onError: parts.onProblem,
    })
  }

  /** ifindex of a guarded workload port. */
  port(name: string): number | undefined {
    const found = this.#byName.get(name)
    return found?.role === 'workload' ? found.ifindex : undefined
  }

  /** ifindex of a guarded port that leads off the node. */
  overlay(name: string): number | undefined {
    const found = this.#byName.get(name)
    return found?.role === 'uplink' ? found.ifindex : undefined
  }

  /** What is guarded now. */
  list(): Guarded[] {
    return [...this.#guarded.values()]
  }

  /** Why devices that are on the bridge now cannot be guarded, by name. They carry nothing. */
  refused(): ReadonlyMap<string, string> {
    return this.#refused
  }

  /** Somebody may have taken off what was attached to a device, or to any. */
  doubt(ifindex: number | undefined): void {
    if (ifindex === undefined || this.#guarded.has(ifindex)) this.#rounds.soon()
  }

  /**
   * Gives a port the net that it is declared for. A port that no longer is keeps its net until `reopen` finds that no MAC
   * of it is there.
   */
  declare(name: string): void {
    const { netOf, overlay, ports } = this.#parts
    const tunnel = this.#byName.get(name)
    const carried = overlay(name)
    if (tunnel?.role === 'uplink' && carried !== undefined) ports.set(tunnel.ifindex, carried, OVERLAY)
    const ifindex = this.port(name)
    const net = netOf(name)
    if (ifindex !== undefined && net !== undefined) ports.set(ifindex, net)
  }

  /** Endpoints are at ports of these ifindexes, which may have gone while an earlier agent ran. */
  homes(ifindexes: Iterable<number>): void {
    this.#successors.homes(ifindexes)
  }

  /** Opens the ports at which no MAC of their net is any more. `vacant` tells which of `ports`, net by ifindex, these are. */
  reopen(vacant: (ports: Iterable<readonly [number, number]>) => Iterable<[ifindex: number, net: number]>): void {
    const { ports, netOf } = this.#parts
    const claimed = this.list().flatMap(({ ifindex, name, role }) => {
      const net = role === 'workload' && netOf(name) === undefined ? ports.net(ifindex) : undefined
      return net ? [[ifindex, net] as const] : []
    })
    const opened = [...vacant(claimed)].filter(([ifindex, net]) => ports.replace(ifindex, net, 0))
    // Who came meanwhile may not have seen that (`settle` of bpf/src/networks.h).
    const still = new Map(vacant(opened))
    for (const [ifindex, net] of opened) if (!still.has(ifindex)) ports.replace(ifindex, 0, net)
  }

  /** Brings everything to what the bridge has now; resolves when that is done. @throws KernelError */
  sync(): Promise<void> {
    return this.#rounds.run()
  }

  /** Whether others had taken something away since `mended` was asked. */
  hasMended(): boolean {
    return this.#mended.size > 0
  }

  /** What others had taken away and is back, since the last question: `port/<name>`, or `gate`. */
  mended(): string[] {
    const names = [...this.#mended]
    this.#mended.clear()
    return names
  }

  async close(): Promise<void> {
    this.#monitor.close()
    await this.#rounds.close()
  }

  /** Links change seldom, and most of them are none of ours. */
  #concerns({ type, payload }: Received): boolean {
    // struct ifinfomsg has the family at offset 0 (AF_BRIDGE: it has left a bridge), the index at offset 4.
    if (type === RTM_DELLINK && payload[0] === 0) this.#successors.gone(payload.readInt32LE(4))
    if (this.#guarded.has(payload.readInt32LE(4))) return type === RTM_DELLINK || type === RTM_NEWLINK
    if (type !== RTM_NEWLINK) return false
    const { name, master } = decodeLink(payload)
    return name === WORK_BRIDGE || (master !== undefined && master === this.#bridge)
  }

  async #bring(): Promise<void> {
    const { links, gate, ports, own, known, changed, replaced } = this.#parts
    const present = await links.present()
    const devices = await listLinks(this.#parts.route)
    const wanted = this.#wanted(devices)
    known(wanted.values())
    const stand = present.whole
    const touched = this.#touched
    const before = this.#guarded
    const names = new Map(devices.map(({ index, name }) => [index, name]))
    const nameOf = (ifindex: number) => names.get(ifindex)
    const odd = this.#odd(present, wanted)
    const stays = ({ ifindex, role }: Guarded) => !odd.has(ifindex) && (before.get(ifindex)?.role ?? role) === role

    // What does not stay as it is, is closed before its programs go.
    const steady = [...wanted.values()].filter((it) => isSpelled(it.name) && stand.has(it.ifindex) && stays(it))
    own(legOf(steady, devices))
    const whole = await gate.ensure(sidesOf(steady, wanted), nameOf)
    for (const ifindex of new Set([...before.keys(), ...present.places.map((it) => it.ifindex)])) {
      const now = wanted.get(ifindex)
      if (now && stays(now)) continue
      ports.delete(ifindex)
      await links.detach(ifindex, present)
      stand.delete(ifindex)
      touched.add(before.get(ifindex)?.name ?? '')
    }
    const others = this.#others(present, wanted.keys(), new Set(names.keys()))
    for (const ifindex of others) {
      ports.delete(ifindex)
      touched.add(nameOf(ifindex) ?? '')
    }
    if (others.size > 0) await replaced(others)
    this.#successors.done()
    this.#guarded = new Map([...before].filter(([ifindex]) => wanted.has(ifindex)))
    const refused = new Map<string, string>()
    for (const device of wanted.values()) {
      const was = before.get(device.ifindex)
      if (was?.name !== device.name || was.role !== device.role) touched.add(device.name).add(was?.name ?? '')
      else if (stand.get(device.ifindex) !== device.role) this.#mended.add(`port/${device.name}`)
      if (await this.#guardOne(device, stand, refused)) this.#guarded.set(device.ifindex, device)
      else this.#guarded.delete(device.ifindex)
    }
    for (const [ifindex] of ports.entries()) if (!this.#guarded.has(ifindex)) ports.delete(ifindex)
    this.#byName = new Map([...this.#guarded.values()].map((device) => [device.name, device]))
    own(legOf(this.#guarded.values(), devices))
    await gate.ensure(sidesOf(this.#guarded.values(), wanted), nameOf)
    this.#tell(refused)
    if (!whole && this.#settled) this.#mended.add('gate')
    this.#settled = true
    this.#touched = new Set()
    touched.delete('')
    if (touched.size > 0) changed([...touched])
  }

  /** Devices that have a program of another role, which would judge as well: who took it off has been killed over it. */
  #odd({ places }: Present, wanted: ReadonlyMap<number, Guarded>): Set<number> {
    return new Set(places.flatMap(({ ifindex, what }) => (wanted.get(ifindex)?.role === what ? [] : [ifindex])))
  }

  /** Devices that have the ifindex of an earlier one. */
  #others({ places }: Present, wanted: Iterable<number>, there: ReadonlySet<number>): ReadonlySet<number> {
    this.#monitor.drain()
    const attached = new Set(places.flatMap(({ ifindex, stands }) => (stands ? [ifindex] : [])))
    const rows = new Set(Array.from(this.#parts.ports.entries(), ([ifindex]) => ifindex))
    return this.#successors.take({ wanted, before: this.#guarded.keys(), there, rows, attached })
  }

  /** Says why something is not guarded, once and not at each look. */
  #tell(refused: Map<string, string>): void {
    const before = this.#refused
    this.#refused = refused
    for (const [name, why] of refused)
      if (before.get(name) !== why) this.#parts.onProblem(new Error(carriesNothing(name, why)))
  }

  #wanted(devices: readonly Link[]): Map<number, Guarded> {
    const bridge = devices.find(({ name, kind }) => name === WORK_BRIDGE && kind === 'bridge')
    this.#bridge = bridge?.index
    if (bridge === undefined) return new Map()
    const { overlay } = this.#parts
    const uplinks = this.#parts.uplinks()
    const ports = devices
      .filter(({ master }) => master === bridge.index)
      .map(({ name, index }): Guarded => {
        return { name, ifindex: index, role: uplinks.has(name) || overlay(name) !== undefined ? 'uplink' : 'workload' }
      })
    const host: Guarded = { name: bridge.name, ifindex: bridge.index, role: 'host' }
    return new Map([host, ...ports].map((device) => [device.ifindex, device]))
  }

  /** False when it could not be: then the gate lets nothing through. Why is noted in `refused`, unless the device is gone. */
  async #guardOne(
    { name, ifindex, role }: Guarded,
    stand: Present['whole'],
    refused: Map<string, string>,
  ): Promise<boolean> {
    const { links, ports, netOf, overlay } = this.#parts
    try {
      if (stand.get(ifindex) !== role && !(await links.attach(ifindex, role))) return false
    } catch (error) {
      if (!(error instanceof KernelError || error instanceof Unguardable)) throw error
      refused.set(name, error.message)
      return false
    }
    if (role === 'host') return true
    if (!isSpelled(name)) {
      refused.set(name, 'nft cannot write its name; rename it to letters, digits, and any of _ . -')
      return false
    }
    const carried = overlay(name)
    const workload = role === 'workload'
    const net = (workload ? (netOf(name) ?? ports.net(ifindex)) : carried) ?? 0
    const kind = workload ? 0 : carried === undefined ? PORT_UPLINK : OVERLAY
    try {
      if (!ports.is(ifindex, net, kind)) ports.set(ifindex, net, kind)
    } catch (error) {
      // No room for so many ports.
      refused.set(name, (error as Error).message)
      return false
    }
    return true
  }
}
