/** Random frames that mostly mean something, and worlds around them; the same seed gives the same. */
import { macBytes } from '../../../netlink/inet.ts'
import { LOCK_HARD, LOCK_SOFT } from '../../../numbers.ts'
import type { Hook } from '../maps.ts'
import { CLAIM_FIRST, CLAIM_NONE, NO_DEVICE } from '../numbers.ts'
import { eui64 } from './frame.ts'
import {
  arp,
  BROADCAST,
  discovery,
  ethernet,
  extension,
  ipv4,
  ipv6,
  linkOption,
  NO_MAC,
  type Tag,
  TYPE,
  tcp,
  udp,
} from './packet.ts'
import { stamp } from './rows/row.ts'
import type { Packet } from './stage.ts'
import { IP, MAC, NET, PORT, SLOT, type World, world } from './world.ts'

const MACS = [...new Set(Object.values(MAC))]
const TARGETS = [...MACS, BROADCAST, '01:00:5e:00:00:fb', '33:33:00:00:00:01', '01:80:c2:00:00:03']
const ADDRESSES = [
  ...Object.values(IP),
  '0.0.0.0',
  '255.255.255.255',
  '224.0.0.1',
  '10.0.0.77',
  '192.0.2.9',
  '10.9.0.255',
]
const VIDS = [0, 7, 8, 9, 55, 100, 300]
const MARKS = [
  0,
  0x1234,
  stamp(0),
  stamp(0, true),
  ...[0, ...Object.values(NET), 77].flatMap((net) => [stamp(net), stamp(net, true)]),
]
const WORKLOADS = [PORT.a1, PORT.a2, PORT.b1, PORT.b2, PORT.c1, PORT.c2, PORT.o1, PORT.o2, PORT.r1]
const INTERFACES: Readonly<Record<Hook, readonly number[]>> = {
  port_in: [...WORKLOADS, ...WORKLOADS, PORT.stranger],
  port_out: [...WORKLOADS, PORT.stranger],
  uplink_in: [PORT.uplink, PORT.uplink, PORT.fixed, PORT.overlay, PORT.tunnel, PORT.stranger],
  uplink_out: [PORT.uplink, PORT.uplink, PORT.fixed, PORT.overlay, PORT.tunnel, PORT.stranger],
  host_in: [PORT.bridge],
  host_out: [PORT.bridge],
}
const ORIGINS = [0, PORT.bridge, PORT.a1, PORT.o1, PORT.uplink, PORT.fixed, PORT.overlay, PORT.tunnel, PORT.stranger]
/** By how often each is run. */
const HOOKS: readonly Hook[] = [
  ...Array<Hook>(8).fill('port_in'),
  'port_out',
  'uplink_in',
  'uplink_in',
  'uplink_out',
  'host_in',
  'host_out',
]
/** Who may use which port and address, so that most frames are right but for one thing. */
const STATIONS = [
  { port: PORT.a1, mac: MAC.a1, ip: IP.a1 },
  { port: PORT.a1, mac: MAC.a1, ip: IP.routedA1 },
  { port: PORT.a2, mac: MAC.a2, ip: IP.a2 },
  { port: PORT.b1, mac: MAC.b1, ip: IP.a1 },
  { port: PORT.c1, mac: MAC.c1, ip: IP.c1 },
  { port: PORT.c2, mac: MAC.c2, ip: IP.c2 },
  { port: PORT.o1, mac: MAC.o1, ip: IP.o1 },
  { port: PORT.r1, mac: MAC.r1, ip: IP.r1 },
] as const

export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 to `below` - 1 (mulberry32). */
  number(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }

  of<T>(choices: readonly T[]): T {
    const chosen = choices[this.number(choices.length)]
    if (chosen === undefined) throw new RangeError('nothing to choose from')
    return chosen
  }

  /** True in so many of a hundred. */
  percent(share: number): boolean {
    return this.number(100) < share
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.number(256)))
  }

  packet(): Packet {
    const hook = this.of(HOOKS)
    const station = this.of(STATIONS)
    const right = this.percent(60)
    const ifindex = right && hook === 'port_in' ? station.port : this.of(INTERFACES[hook])
    const from = this.percent(80) ? station.mac : this.of([...MACS, NO_MAC, '03:00:00:00:00:01'])
    const ip = this.percent(80) ? station.ip : this.of(ADDRESSES)
    const frame = ethernet(this.of(TARGETS), from, ...this.#content(from, ip), this.#tags())
    const marked = hook.endsWith('out') || hook === 'host_in' || this.percent(5)
    return {
      hook,
      ifindex,
      data: this.#spoiled(frame),
      mark: marked ? this.of(MARKS) : 0,
      ...(hook === 'uplink_out' && { from: this.of(ORIGINS) }),
      beside: this.percent(20) ? this.of([TYPE.vlan, TYPE.service]) * 65536 + this.of(VIDS) : 0,
    }
  }

  /** The world of the tables with some things otherwise. */
  world(): World {
    const one = world()
    const maybe = (change: () => unknown) => this.percent(30) && change()
    maybe(() => one.outside.set(this.of(MACS), { recent: this.percent(70), times: this.of([1, 2, 3, 9]) }))
    maybe(() => one.peers.set(this.of(MACS), this.of([0, PORT.tunnel, PORT.overlay, PORT.uplink, PORT.o1])))
    one.closed = this.percent(20)
    maybe(() => Object.assign(one, { host: { mac: MAC.node, ifindex: PORT.bridge } }))
    for (const mac of [MAC.o1, MAC.a1, MAC.c2])
      maybe(() => one.formers.set(mac, { net: NET.a, address: this.of([IP.a2, IP.o1, IP.c2]) }))
    maybe(() => one.askedBy.set(MAC.o1, this.of([PORT.o1, PORT.o2])))
    maybe(() => one.ports.delete(this.of(WORKLOADS)))
    maybe(() => one.ports.set(this.of(WORKLOADS), this.of(Object.values(NET))))
    maybe(() => one.truth.delete(this.of(Object.values(SLOT))))
    maybe(() => one.vlans.set(this.of(VIDS), { locked: true, net: NET.a }))
    maybe(() => one.nets.set(NET.a, { gateway: IP.gatewayA, vlan: 0, flags: this.number(8) }))
    maybe(() => one.locks.set(this.of([0, PORT.o1, PORT.c2]), this.of([LOCK_SOFT, LOCK_HARD])))
    for (const net of Object.values(NET))
      maybe(() =>
        one.tenantNets.set(net, { bucket: this.of([3, 4]), rate: this.of([0, 1]), blocked: this.percent(30) }),
      )
    for (const bucket of [3, 4])
      one.owed.set(bucket, { up: this.of([0, 65_000, 131_000]), down: this.of([0, 131_100]) })
    for (const endpoint of one.endpoints.values())
      maybe(() => Object.assign(endpoint, { claims: this.of([CLAIM_FIRST, CLAIM_NONE]) }))
    for (const mac of [MAC.o1, MAC.nobody, MAC.a1, MAC.c2]) maybe(() => one.macbinds.set(mac, this.#macbind()))
    return one
  }

  #macbind(): { ifindex: number; vlan: number; lock: number } {
    const ifindex = this.of([0, PORT.o1, PORT.o2, PORT.a1, PORT.c2, NO_DEVICE])
    return { ifindex, vlan: this.of([0, 0, 8]), lock: this.of([LOCK_SOFT, LOCK_HARD]) }
  }

  #tags(): Tag[] {
    const count = this.of([0, 0, 0, 0, 0, 1, 1, 2, 2, 3])
    return Array.from({ length: count }, () => ({ vid: this.of(VIDS), type: this.of([TYPE.vlan, TYPE.service]) }))
  }

  #content(mac: string, ip: string): [type: number, payload: Uint8Array] {
    switch (this.number(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return [TYPE.ipv4, this.#ipv4(mac, ip)]
      case 4:
      case 5:
      case 6:
        return [this.of([TYPE.arp, TYPE.arp, TYPE.rarp]), this.#arp(mac, ip)]
      case 7:
      case 8:
        return [TYPE.ipv6, this.#ipv6(mac)]
      default:
        if (this.percent(50)) return [this.of([46, 1500, 0x8870, 0x88b5]), this.#snap()]
        return [this.of([0x88b5, 46, 0x9100, TYPE.ipv4, TYPE.arp, TYPE.ipv6]), this.bytes(1 + this.number(60))]
    }
  }

  #snap(): Buffer {
    const type = Buffer.alloc(2)
    type.writeUInt16BE(this.of([TYPE.ipv4, TYPE.arp, TYPE.ipv6, TYPE.vlan, TYPE.service, 0x9100, 0x88b5]))
    return Buffer.concat([Buffer.from(this.of(SNAPS), 'hex'), type, this.bytes(this.number(60))])
  }

  #ipv4(mac: string, ip: string): Buffer {
    const ports = () => this.of([67, 68, 1000])
    const asks = Buffer.concat([Buffer.alloc(28), macBytes(this.percent(60) ? mac : this.of(MACS)), Buffer.alloc(200)])
    const told = this.percent(50) ? asks : Buffer.alloc(18)
    const upper = this.percent(10)
      ? udp(68, 67, asks)
      : this.percent(70)
        ? udp(ports(), ports(), told)
        : tcp(Buffer.alloc(this.of([this.number(1400), 1400 + this.number(200)])))
    const protocol = this.of([17, 17, 6, 1])
    return ipv4(this.percent(90) ? ip : '0.0.0.0', this.of(ADDRESSES), protocol, upper, {
      fragment: this.percent(15) ? this.of([0x2000, 5, 0x2005, 0x4000]) : 0,
      options: Buffer.alloc(this.percent(20) ? 4 * this.number(10) : 0, 1),
      version: this.percent(97) ? 4 : 6,
    })
  }

  #arp(mac: string, ip: string): Buffer {
    const sender = { mac: this.percent(90) ? mac : this.of(MACS), ip: this.percent(85) ? ip : this.of(ADDRESSES) }
    const more = this.percent(95) ? {} : { sizes: this.of([0x0804, 0x0610]) }
    return arp(this.of([1, 2, 3]), sender, { ip: this.of(ADDRESSES) }, more)
  }

  #ipv6(mac: string): Buffer {
    const from = this.percent(50) ? linkLocal(eui64(this.percent(90) ? mac : this.of(MACS))) : this.of(SOURCES)
    const option = () =>
      this.percent(70)
        ? linkOption(this.of([1, 2]), this.percent(85) ? mac : MAC.a2)
        : this.of([NONCE, LONG, Buffer.alloc(8)])
    const options = Array.from({ length: this.of([0, 1, 1, 2, 4, 5]) }, option)
    const type = this.of([128, 133, 134, 135, 135, 136, 136, 137])
    const target = type === 133 ? undefined : this.of([...SOURCES, linkLocal(eui64(mac)), '2001:db8::9'])
    const [next, upper]: [number, Buffer] = this.percent(75)
      ? [58, discovery(type, target, ...options)]
      : [17, udp(this.of([546, 547, 5]), 547)]
    const headers = Array.from({ length: this.of([0, 0, 0, 1, 2, 4, 5]) }, () => this.of([0, 43, 60, 60, 44, 51, 135]))
    const [first = next] = headers
    const whole = headers.reduceRight<Buffer>(
      (rest, _, n) => extension(headers[n + 1] ?? next, rest, this.of([0, 0, 2])),
      upper,
    )
    return ipv6(from, 'ff02::1', first, whole, this.percent(90) ? whole.length : this.number(80))
  }

  /** One frame in three is cut, or some of its bytes are others. */
  #spoiled(frame: Buffer): Buffer {
    if (this.percent(15)) return frame.subarray(0, 14 + this.number(Math.min(frame.length, 110) - 13))
    if (this.percent(20)) {
      const other = Buffer.from(frame)
      for (let left = this.number(3); left >= 0; left--) other[this.number(other.length)] = this.number(256)
      return other
    }
    return frame
  }
}

const SOURCES = ['fe80::1', 'fe80::9', 'fe80::a2', '::', '::', '::1', '2001:db8::1', 'febf::1', 'fec0::1', 'fe80::']
const linkLocal = (id: string): string => `fe80::${(id.match(/.{4}/g) ?? []).join(':')}`
/** In front of an EtherType. */
const SNAPS = ['aaaa03000000', 'aaaa030000f8', 'abab13000000', 'aaaa0300000c', '424203000000', 'aaaa03']

const NONCE = Buffer.from('0e01aabbccddeeff', 'hex')
const LONG = Buffer.concat([Buffer.from([14, 2]), Buffer.alloc(14)])
