/**
 * Keeps every device of `br-work` under the programs, whoever put it there: follows the bridge and its ports, attaches and
 * detaches, and keeps the rows that say which ports are guarded.
 *
 * A port is opened to frames past the bridge (its row) and to stamped frames (the gate) only after both its links stand,
 * and closed the other way round.
 */
import { KernelError } from '../../libc.ts'
import { NETLINK_ROUTE } from '../../netlink/bind.ts'
import { decodeLink, type Link, listLinks, RTM_DELLINK, RTM_NEWLINK } from '../../netlink/link.ts'
import { type Monitor, openMonitor, RTNLGRP_LINK } from '../../netlink/monitor.ts'
import type { Netlink } from '../../netlink/socket.ts'
import type { Received } from '../../netlink/wire.ts'
import { PORT_OVERLAY, PORT_UPLINK, WORK_BRIDGE } from '../../numbers.ts'
import type { Gate } from './gate.ts'
import type { PortLinks, Role } from './links.ts'
import type { PortTable } from './ports.ts'

/** Both bits: an overlay leads off the node, too. Unsigned. */
const OVERLAY = (PORT_UPLINK | PORT_OVERLAY) >>> 0

export interface Guarded {
  name: string
  ifindex: number
  role: Role
}

export interface GuardParts {
  route: Netlink
  links: PortLinks
  gate: Gate
  ports: PortTable
  /** Names of the ports that lead off the node, other than overlays. */
  uplinks(): ReadonlySet<string>
  /** Number of the net that an overlay carries, 0 for none; undefined for every other port. */
  overlay(port: string): number | undefined
  /** Number of the net that a port is declared for; undefined when its net is claimed by the frames that come in. */
  netOf(port: string): number | undefined
  /** Ports of these names came or went. */
  changed(names: readonly string[]): void
  /** Something could not be guarded: it carries no private traffic until it can. */
  onProblem(error: unknown): void
}

export class Guard {
  readonly #parts: GuardParts
  readonly #monitor: Monitor
  #guarded = new Map<number, Guarded>()
  #byName = new Map<string, Guarded>()
  readonly #mended = new Set<string>()
  #bridge: number | undefined
  /** Everything was brought in order before: what is missing since, somebody has taken away. */
  #settled = false
  #lane: Promise<void> | undefined
  #again = false
  #closed = false

  constructor(parts: GuardParts) {
    this.#parts = parts
    this.#monitor = openMonitor({
      protocol: NETLINK_ROUTE,
      groups: [RTNLGRP_LINK],
      onMessage: (message) => this.#concerns(message) && this.#soon(),
      onOverflow: () => this.#soon(),
      onError: parts.onProblem,
    })
  }

  /** ifindex of a guarded workload port. */
  port(name: string): number | undefined {
    const found = this.#byName.get(name)
    return found?.role === 'workload' ? found.ifindex : undefined
  }

  /** What is guarded now. */
  list(): Guarded[] {
    return [...this.#guarded.values()]
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

  /** Opens the ports whose net has no MAC there any more. `homes` tells the nets of the MACs at each ifindex. */
  reopen(homes: ReadonlyMap<number, ReadonlySet<number>>): void {
    const { ports, netOf } = this.#parts
    for (const { ifindex, name, role } of this.#guarded.values()) {
      const net = ports.net(ifindex)
      if (role !== 'workload' || !net || homes.get(ifindex)?.has(net) || netOf(name) !== undefined) continue
      ports.replace(ifindex, net, 0)
    }
  }

  /** Brings everything to what the bridge has now; resolves when that is done. @throws KernelError */
  sync(): Promise<void> {
    this.#again = true
    this.#lane ??= (async () => {
      while (this.#again && !this.#closed) {
        this.#again = false
        await this.#bring()
      }
    })().finally(() => {
      this.#lane = undefined
    })
    return this.#lane
  }

  /** What others had taken away and is back, since the last question: `port/<name>`, or `gate`. */
  mended(): string[] {
    const names = [...this.#mended]
    this.#mended.clear()
    return names
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#monitor.close()
    await this.#lane?.catch(() => {})
  }

  #soon(): void {
    if (!this.#closed) this.sync().catch(this.#parts.onProblem)
  }

  /** Links change seldom, and most of them are none of ours. */
  #concerns({ type, payload }: Received): boolean {
    // struct ifinfomsg has the index at offset 4.
    if (this.#guarded.has(payload.readInt32LE(4))) return type === RTM_DELLINK || type === RTM_NEWLINK
    if (type !== RTM_NEWLINK) return false
    const { name, master } = decodeLink(payload)
    return name === WORK_BRIDGE || (master !== undefined && master === this.#bridge)
  }

  async #bring(): Promise<void> {
    const { links, gate, ports, changed } = this.#parts
    const devices = await listLinks(this.#parts.route)
    const wanted = this.#wanted(devices)
    const stand = links.present()
    const touched = new Set<string>()
    const before = this.#guarded
    const nameOf = (ifindex: number) => devices.find(({ index }) => index === ifindex)?.name

    // What does not stay as it is, is closed before its links go.
    const steady = [...wanted.values()].filter(
      ({ ifindex, role }) => stand.get(ifindex) === role && (before.get(ifindex)?.role ?? role) === role,
    )
    const whole = await gate.ensure(passable(steady), nameOf)
    for (const ifindex of new Set([...before.keys(), ...links.known()])) {
      const now = wanted.get(ifindex)
      if (
        now &&
        (stand.get(ifindex) ?? now.role) === now.role &&
        (before.get(ifindex)?.role ?? now.role) === now.role
      ) {
        continue
      }
      ports.delete(ifindex)
      await links.detach(ifindex)
      touched.add(before.get(ifindex)?.name ?? '')
    }
    this.#guarded = new Map([...before].filter(([ifindex]) => wanted.has(ifindex)))
    for (const device of wanted.values()) {
      const known = before.get(device.ifindex)
      if (known?.name !== device.name || known.role !== device.role) touched.add(device.name).add(known?.name ?? '')
      else if (stand.get(device.ifindex) !== device.role) this.#mended.add(`port/${device.name}`)
      if (await this.#guardOne(device, stand)) this.#guarded.set(device.ifindex, device)
      else this.#guarded.delete(device.ifindex)
    }
    for (const [ifindex] of ports.entries()) if (!this.#guarded.has(ifindex)) ports.delete(ifindex)
    this.#byName = new Map([...this.#guarded.values()].map((device) => [device.name, device]))
    await gate.ensure(passable([...this.#guarded.values()]), nameOf)
    if (!whole && this.#settled) this.#mended.add('gate')
    this.#settled = true
    touched.delete('')
    if (touched.size > 0) changed([...touched])
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

  /** False when it could not be, which the gate makes good by letting nothing through. */
  async #guardOne({ name, ifindex, role }: Guarded, stand: ReadonlyMap<number, Role>): Promise<boolean> {
    const { links, ports, netOf, overlay, onProblem } = this.#parts
    try {
      if (stand.get(ifindex) !== role && !(await links.attach(ifindex, role))) return false
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      onProblem(error)
      return false
    }
    if (role === 'host') return true
    const carried = overlay(name)
    const workload = role === 'workload'
    const net = (workload ? (netOf(name) ?? ports.net(ifindex)) : carried) ?? 0
    const kind = workload ? 0 : carried === undefined ? PORT_UPLINK : OVERLAY
    if (!ports.is(ifindex, net, kind)) ports.set(ifindex, net, kind)
    return true
  }
}

/** Devices that stamped frames may leave by: name by ifindex. */
const passable = (devices: readonly Guarded[]): Map<number, string> =>
  new Map(devices.flatMap(({ ifindex, name, role }) => (role === 'host' ? [] : [[ifindex, name] as const])))
