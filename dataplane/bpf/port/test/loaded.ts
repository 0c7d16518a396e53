/** The programs of br-work, loaded, and their maps filled with a world and read back. */
import type { Scope } from '../../../../test/netns.ts'
import {
  MAC_AMBIGUOUS,
  PORT_OVERLAY,
  PORT_UPLINK,
  SETTING_CLOSED,
  SETTING_LOCK,
  SETTING_MACBIND,
  SETTING_PEERS,
  SLOT_LINK,
  SLOT_WORD_BITS,
  STAMP_ROUTED,
  TENANT_BLOCKED,
  VLAN_LOCKED,
} from '../../../numbers.ts'
import { layoutDir } from '../../bpffs.ts'
import type { BpfMap } from '../../map.ts'
import { type BpfObject, openObject } from '../../object.ts'
import { bpffs } from '../../test/support.ts'
import type { EndpointKey, LinkKey } from '../layout.ts'
import { PORT_OBJECT, type PortMaps, portMaps } from '../maps.ts'
import { BINDINGS_EXIST, BINDINGS_NAME_PORTS, OUTSIDE_BITS, OUTSIDE_TIMES } from '../numbers.ts'
import { PortTable } from '../ports.ts'
import { type ReasonName, reasonName } from '../reason.ts'
import { SlotTable } from '../slot_table.ts'
import { NO_MAC } from './packet.ts'
import { type Endpoint, SLOT, type World } from './world.ts'

export interface Loaded {
  readonly object: BpfObject
  /** Where its maps are pinned. */
  readonly pinDir: string
  readonly maps: PortMaps
  readonly slots: SlotTable
  readonly ports: PortTable
  /** Puts a world in the place of the one before. */
  set(world: World): void
  /** `changeable` of what the maps hold now under the keys of `world`. */
  changes(world: World): Changeable
  /** How often each reason was tallied so far. */
  tallies(): Promise<Map<ReasonName, number>>
}

function kindOf({ kinds }: World, ifindex: number): number {
  const kind = kinds.get(ifindex)
  return kind === undefined ? 0 : PORT_UPLINK + (kind === 'overlay' ? PORT_OVERLAY : 0)
}

/** The parts of a world that the programs write, in a fixed order. */
export interface Changeable
  extends Pick<World, 'ports' | 'far' | 'owed' | 'links' | 'claimed' | 'outside' | 'askedBy'> {
  endpoints: Map<string, Endpoint | undefined>
}

/** Loads the object, its maps pinned on a bpf filesystem of the test's own; `t.teardown` undoes it. */
export async function loadPrograms(t: Scope): Promise<Loaded> {
  const pinDir = layoutDir(bpffs(t))
  const object = await loadObject(t, PORT_OBJECT, pinDir)
  const maps = portMaps(object)
  const memory = { slots: new SlotTable(maps.slots), ports: new PortTable(maps.ports), began: process.hrtime.bigint() }
  t.teardown(() => {
    memory.slots.close()
    memory.ports.close()
  })
  let clear = () => {}
  return {
    object,
    pinDir,
    maps,
    ...memory,
    set(world) {
      clear()
      memory.began = process.hrtime.bigint()
      clear = fill(maps, memory, world)
    },
    changes: (world) => changes(maps, memory, world),
    tallies: () => tallied(maps),
  }
}

/** Loads a compiled object; closed at the end. */
export async function loadObject(t: Scope, path: string, pinDir: string): Promise<BpfObject> {
  const object = openObject(path, { pinDir })
  await object.load()
  t.teardown(() => object.close())
  return object
}

/** Sums over the CPUs; what was not told has no name, and depends on the time. */
async function tallied(maps: PortMaps): Promise<Map<ReasonName, number>> {
  const sums = new Map<ReasonName, number>()
  for (const [number, each] of await maps.tallies.lookupBatch()) {
    const name = reasonName(number)
    if (name) sums.set(name, Number(each.reduce((a, b) => a + b)))
  }
  return sums
}

/** Splits `<number>/<text>`. */
function split(key: string): [number, string] {
  const [number = '', text = ''] = key.split('/')
  return [Number(number), text]
}

function prefix(text: string): { address: string; length: number } {
  const [address = '', length = ''] = text.split('/')
  return { address, length: Number(length) }
}

type Memory = Pick<Loaded, 'slots' | 'ports'> & {
  /** Nanoseconds of CLOCK_MONOTONIC, from which debts are counted. */
  began: bigint
}

/** What a byte costs at 1 bit/s. */
const BYTE_NS = 8_000_000_000n

/** Fills the maps with `world`; what it answers takes the world out of them again. */
function fill(maps: PortMaps, { slots, ports, began }: Memory, world: World): () => void {
  const undo: (() => void)[] = []
  const put = <K, V>(map: BpfMap<K, V>, key: K, value: V) => {
    map.set(key, value)
    undo.push(() => map.delete(key))
  }
  for (const [key, row] of world.endpoints) put(maps.byMac, endpointOf(key), row)
  for (const [key, { slot, routed }] of world.addresses) {
    const [net, address] = split(key)
    put(maps.addresses, { net, address }, { slot, routed: Number(routed) })
  }
  for (const [mac, net] of world.netOfMac) put(maps.netOfMac, mac, net === 'ambiguous' ? MAC_AMBIGUOUS : net)
  for (const [mac, row] of world.formers) put(maps.formers, mac, row)
  for (const [mac, ifindex] of world.askedBy) maps.formerPorts.set(mac, ifindex)
  maps.hosts.set(0, world.host ?? { mac: NO_MAC, ifindex: 0 })
  for (const range of world.privateRanges) put(maps.privateRanges, prefix(range), 1)
  for (const { prefix: range, net, routed } of world.hostRanges)
    put(maps.hostRanges, prefix(range), net + (routed ? STAMP_ROUTED : 0))
  for (const [net, row] of world.nets) put(maps.nets, net, row)
  for (const [key, ifindex] of world.far) put(maps.far, endpointOf(key), ifindex)
  for (const [mac, ifindex] of world.peers) put(maps.peers, mac, ifindex)
  maps.settings.set(SETTING_PEERS, Number(world.peers.size > 0))
  for (const [one, { recent, times }] of world.outside) {
    put(maps.outside, one, { heard: recent ? process.hrtime.bigint() : 1n, times })
    if (times < OUTSIDE_TIMES) continue
    const [at, bit] = outsideBit(one)
    maps.outsideBits.set(at, ((maps.outsideBits.get(at) ?? 0) | bit) >>> 0)
  }
  maps.settings.set(SETTING_CLOSED, Number(world.closed))
  for (const [mac, row] of world.macbinds) put(maps.macbinds, mac, row)
  for (const [ifindex, lock] of world.locks) if (ifindex !== 0) put(maps.locks, ifindex, lock)
  const named = [...world.locks.keys(), ...Array.from(world.macbinds.values(), ({ ifindex }) => ifindex)]
  const exist = world.locks.size > 0 ? BINDINGS_EXIST : 0
  maps.settings.set(SETTING_MACBIND, named.some((ifindex) => ifindex !== 0) ? BINDINGS_NAME_PORTS : exist)
  maps.settings.set(SETTING_LOCK, world.locks.get(0) ?? 0)
  for (const [vid, { locked, net }] of world.vlans) {
    maps.vlans.set(vid, net + (locked ? VLAN_LOCKED : 0))
    undo.push(() => maps.vlans.set(vid, 0))
  }
  for (const slot of Object.values(SLOT)) {
    slots.clear(slot)
    slots.bind(slot, world.truth.get(slot))
  }
  for (const [key, slot] of world.links) put(maps.links6, linkOf(key), slot)
  for (const [slot, id] of world.claimed) maps.slots.set(linkWord(slot), idOf(id))
  for (const [net, { bucket, rate, blocked }] of world.tenantNets)
    put(maps.tenantNets, net, { flags: blocked ? TENANT_BLOCKED : 0, bucket, rate })
  maps.anyTenantNet.set(0, Number(world.tenantNets.size > 0))
  const paid = (bytes: number) => (bytes === 0 ? 0n : began + BigInt(bytes) * BYTE_NS + BYTE_NS / 2n)
  for (const [bucket, { up, down }] of world.owed) maps.buckets.set(bucket, { up: paid(up), down: paid(down) })
  for (const [ifindex, net] of world.ports) ports.set(ifindex, net, kindOf(world, ifindex))
  undo.push(() => {
    for (const [ifindex] of world.ports) ports.delete(ifindex)
    for (const [key] of [...maps.far.entries()]) maps.far.delete(key)
    for (const [key] of [...maps.links6.entries()]) maps.links6.delete(key)
    for (const [key] of [...maps.outside.entries()]) maps.outside.delete(key)
    for (const [key] of [...maps.formerPorts.entries()]) maps.formerPorts.delete(key)
  })
  return () => {
    for (const one of undo) one()
  }
}

/** The parts of a world that the programs write, in a fixed order. */
export function changeable({ ports, endpoints, far, owed, links, claimed, outside, askedBy }: World): Changeable {
  return {
    ports: sorted(ports),
    endpoints: sorted(endpoints),
    far: sorted(far),
    owed: sorted(owed),
    links: sorted(links),
    claimed: sorted(claimed),
    outside: sorted(outside),
    askedBy: sorted(askedBy),
  }
}

function changes(maps: PortMaps, { ports, began }: Memory, world: World): Changeable {
  const nets = Array.from(world.ports.keys(), (ifindex): [number, number] => [ifindex, ports.net(ifindex) ?? -1])
  const rows = Array.from(world.endpoints.keys(), (key): [string, Endpoint | undefined] => [
    key,
    maps.byMac.get(endpointOf(key)),
  ])
  const far = Array.from(maps.far.entries(), ([{ net, mac }, ifindex]): [string, number] => [`${net}/${mac}`, ifindex])
  // Half a byte more than was owed: it takes longer than any world.
  const bytes = (paid = 0n) => (paid === 0n ? 0 : Number((paid - began) / BYTE_NS))
  const owed = Array.from(world.owed.keys(), (bucket): [number, { up: number; down: number }] => {
    const row = maps.buckets.get(bucket)
    return [bucket, { up: bytes(row?.up), down: bytes(row?.down) }]
  })
  const links = Array.from(maps.links6.entries(), ([{ net, id }, slot]): [string, number] => {
    return [`${net}/${idText(id)}`, slot]
  })
  const claimed = Object.values(SLOT).flatMap((slot): [number, string][] => {
    const id = maps.slots.get(linkWord(slot)) ?? 0n
    return id === 0n ? [] : [[slot, idText(id)]]
  })
  const recently = process.hrtime.bigint() - 20_000_000_000n
  const outside = Array.from(maps.outside.entries(), ([mac, { heard, times }]) => {
    return [mac, { recent: heard > recently, times }] as const
  })
  return {
    outside: sorted(new Map(outside)),
    askedBy: sorted(new Map(maps.formerPorts.entries())),
    links: sorted(new Map(links)),
    claimed: sorted(new Map(claimed)),
    ports: sorted(new Map(nets)),
    endpoints: sorted(new Map(rows)),
    far: sorted(new Map(far)),
    owed: sorted(new Map(owed)),
  }
}

const linkWord = (slot: number): number => (slot << SLOT_WORD_BITS) | SLOT_LINK
const idOf = (text: string): bigint => Buffer.from(text, 'hex').readBigUInt64LE()

function idText(id: bigint): string {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(id)
  return bytes.toString('hex')
}

function linkOf(key: string): LinkKey {
  const [net, id] = split(key)
  return { net, id: idOf(id) }
}

function sorted<K, V>(map: Map<K, V>): Map<K, V> {
  return new Map([...map].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function endpointOf(key: string): EndpointKey {
  const [net, mac] = split(key)
  return { net, mac }
}

/** As `outside_word` of bpf/src/outside.h: number of the word, and its bit. */
export function outsideBit(one: string): [at: number, bit: number] {
  const bytes = Buffer.from(one.replaceAll(':', ''), 'hex')
  const folded = (bytes.readUInt32LE(0) ^ bytes.readUIntLE(3, 3)) >>> 0
  const hash = Math.imul(folded, 2_654_435_761) >>> (32 - OUTSIDE_BITS)
  return [hash >>> 5, (1 << (hash & 31)) >>> 0]
}
