/** Reads back from the maps which virtual addresses packets meet. */

import { closeSync } from 'node:fs'
import { LB_BACKENDS, LB_DSR, LB_PLACES } from '../../numbers.ts'
import { inSlices } from '../../slices.ts'
import { bytes, u32 } from '../codec.ts'
import { openById } from '../firewall/by-id.ts'
import { BpfMap } from '../map.ts'
import { ALGORITHMS, type VipBackend, type VipEntry } from './entries.ts'
import type { BalancerMaps } from './maps.ts'
import { digestOf, RING_BYTES } from './ring.ts'
import { FAMILIES, type Family, type Frontend, type Label, type VipRow, vipLabel } from './rows.ts'
import { answering, liveOf, type Placed, type Standing } from './table.ts'

/** Every virtual address as it stands; one whose rows lack something is damaged. */
export async function standing(maps: BalancerMaps): Promise<Standing[]> {
  const labels = new Map(await maps.labels.lookupBatch())
  const found: Standing[] = []
  for (const family of FAMILIES) {
    await inSlices(await maps.vips[family].lookupBatch(), ([front, row]) => {
      found.push(read(maps, family, front, row, labels))
    })
  }
  return found
}

function read(
  maps: BalancerMaps,
  family: Family,
  front: Frontend,
  { index, flags }: VipRow,
  labels: ReadonlyMap<number, Label>,
): Standing {
  const own = labels.get(vipLabel(index))
  const places = new Map<string, Placed>()
  let damaged = own === undefined
  for (let place = 0; place < LB_PLACES; place++) {
    const row = maps.backends.get(index * LB_PLACES + place, family)
    if (row === undefined) continue
    const named = labels.get(index * LB_PLACES + place)
    if (named === undefined || places.has(named.id)) {
      damaged = true
      continue
    }
    const backend: VipBackend = {
      id: named.id,
      address: row.address,
      port: row.port,
      weight: named.weight,
      state: row.state,
    }
    places.set(named.id, { backend, place, generation: row.generation })
  }
  const id = own?.id ?? `${front.address} ${front.protocol} ${front.port}`
  const entry: VipEntry = {
    kind: 'vip',
    key: `lb/vip/${id}`,
    id,
    ...front,
    algorithm: ALGORITHMS[own?.algorithm ?? 0] ?? 'round-robin',
    dsr: (flags & LB_DSR) !== 0,
    backends: [...places.values()].map(({ backend }) => backend).sort((a, b) => (a.id < b.id ? -1 : 1)),
    ...(damaged && { damaged }),
  }
  return { entry, index, places }
}

/**
 * What an earlier agent had not come to when it was killed: rows of virtual addresses that are not there, which backends
 * serve which, and rings that are not of their backends. Those are told as damaged.
 */
export async function mend(maps: BalancerMaps, all: readonly Standing[]): Promise<Standing[]> {
  const used = new Set(
    all.flatMap(({ index, places }) => [...places.values()].map(({ place }) => index * LB_PLACES + place)),
  )
  for (let row = 0; row < LB_BACKENDS; row++) {
    if (maps.backends.generation(row) !== 0 && !used.has(row)) maps.backends.clear(row)
  }
  const indexes = new Set(all.map(({ index }) => index))
  for (const [key] of await maps.labels.lookupBatch()) {
    if (!(key >= 0x80000000 ? indexes.has(key & 0x7fffffff) : used.has(key))) maps.labels.delete(key)
  }
  const keys: Frontend[] = all.map(({ entry: { address, port, protocol } }) => ({ address, port, protocol }))
  for (const family of FAMILIES) keys.push(...(await mendServed(maps, family, all)))
  maps.hints.adopt(keys)
  const mended: Standing[] = []
  for (const it of all) mended.push((await isRingOf(maps, it)) ? it : { ...it, entry: { ...it.entry, damaged: true } })
  return mended
}

async function mendServed(maps: BalancerMaps, family: Family, all: readonly Standing[]): Promise<Frontend[]> {
  const wanted = new Map<string, [Frontend, Frontend[]]>()
  for (const { entry } of all) {
    if ((family === 6) !== entry.address.includes(':')) continue
    const { address, port, protocol } = entry
    for (const backend of entry.backends) {
      const key = answering(entry, backend)
      const text = textOf(key)
      const [, by] = wanted.get(text) ?? [key, []]
      if (!by.some((one) => one.address === address && one.port === port)) by.push({ address, port, protocol })
      wanted.set(text, [key, by])
    }
  }
  const right = new Set<string>()
  for (const [key, by] of await maps.served[family].lookupBatch()) {
    const text = textOf(key)
    const [, sharers] = wanted.get(text) ?? []
    if (sharers === undefined) maps.served[family].delete(key)
    else if (textsOf(sharers) === textsOf(by)) right.add(text)
  }
  for (const [text, [key, by]] of wanted) if (!right.has(text)) maps.served[family].set(key, by)
  return [...wanted.values()].map(([key]) => key)
}

const textOf = ({ address, port, protocol }: Frontend): string => `${address} ${port} ${protocol}`
/** Whatever their order. */
const textsOf = (all: readonly Frontend[]): string => all.map(textOf).sort().join()

async function isRingOf(maps: BalancerMaps, { entry, index, places }: Standing): Promise<boolean> {
  const id = maps.rings.get(index)
  if (id === undefined) return false
  const fd = await openById(id)
  try {
    const ring = new BpfMap(fd, u32, bytes(RING_BYTES), 'borrowed').get(0)
    const digest = ring && Buffer.from(ring).readBigUInt64LE(0)
    return digest === digestOf(entry.algorithm, liveOf(places))
  } finally {
    closeSync(fd)
  }
}
