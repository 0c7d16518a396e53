import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { layoutDir } from '../bpffs.ts'
import { bytes, perCpu, u32, u64 } from '../codec.ts'
import { createMap, MAP_TYPE, NO_PREALLOC, openMap, possibleCpus } from '../map.ts'
import { MappedArray } from '../mapped.ts'
import { runProgram } from '../test_run.ts'
import { bpffs, type Flow, flow, frame, loadProbe, skb } from './support.ts'

const aFlow = (n: number): Flow => ({ packets: n, port: n & 0xffff, bytes: BigInt(n) << 32n })

/** More than two chunks of a batch, and no multiple of one. */
const MANY = 9_001

t.test('codecs write and read in place', async (t) => {
  const buffer = Buffer.alloc(64, 0xff)
  u32.encode(buffer, 4, 0xfedcba98)
  u64.encode(buffer, 8, 0xfedcba9876543210n)
  bytes(3).encode(buffer, 17, Uint8Array.of(1, 2, 3))
  t.equal(buffer.toString('hex', 0, 21), 'ffffffff98badcfe1032547698badcfeff010203ff')
  t.equal(u32.decode(buffer, 4), 0xfedcba98)
  t.equal(u64.decode(buffer, 8), 0xfedcba9876543210n)
  const read = bytes(3).decode(buffer, 17)
  buffer.fill(0)
  t.same(read, Uint8Array.of(1, 2, 3), 'does not change with the buffer')
  t.throws(() => bytes(3).encode(buffer, 0, Uint8Array.of(1)), /1 bytes given for a field of 3/)
})

t.test('per-CPU values stand on multiples of 8 bytes', async (t) => {
  const codec = perCpu(bytes(12), 3)
  t.equal(codec.size, 48)
  const buffer = Buffer.alloc(50, 0xff)
  codec.encode(buffer, 1, [Uint8Array.from({ length: 12 }, () => 1), Uint8Array.from({ length: 12 }, () => 2)])
  const hex = `ff${'01'.repeat(12)}${'00'.repeat(4)}${'02'.repeat(12)}${'00'.repeat(20)}ff`
  t.equal(buffer.toString('hex'), hex)
  t.same(
    codec.decode(buffer, 1).map((one) => one[11]),
    [1, 2, 0],
  )
  t.throws(() => perCpu(u32, 1).encode(buffer, 0, [1, 2]), /2 values given for 1 CPUs/)
})

requireRoot(t)

t.test('single entries are set, read and deleted', async (t) => {
  const probe = await loadProbe(t)
  const flows = probe.map('flows', u32, flow)
  t.match(flows.info, { type: MAP_TYPE.hash, name: 'flows', keySize: 4, valueSize: 16, maxEntries: 10_000 })
  t.equal(flows.get(1), undefined)
  flows.set(1, aFlow(1))
  t.same(flows.get(1), aFlow(1))
  flows.set(1, aFlow(2), 'existing')
  t.same(flows.get(1), aFlow(2))
  t.throws(() => flows.set(1, aFlow(3), 'new'), { code: 'EEXIST' })
  t.throws(() => flows.set(2, aFlow(3), 'existing'), { code: 'ENOENT' })
  t.equal(flows.delete(1), true)
  t.equal(flows.delete(1), false)
  t.same([...flows.entries()], [])
  t.throws(() => probe.map('counts', u32, u64).delete(0), /EINVAL: cannot delete an entry of map counts/)
})

t.test('a full map says how much it holds', async (t) => {
  const map = createMap({ name: 'small', type: MAP_TYPE.hash, maxEntries: 2, key: u32, value: u32 })
  t.teardown(() => map.close())
  await t.rejects(map.updateBatch([1, 2, 3].map((n) => [n, n])), {
    code: 'E2BIG',
    message: 'E2BIG: cannot set entries of map small (2 entries at most): 2 were set',
  })
  t.throws(() => map.set(4, 4), { message: 'E2BIG: cannot set an entry of map small (2 entries at most)' })
})

t.test('entries can be walked through and deleted on the way', async (t) => {
  const flows = (await loadProbe(t)).map('flows', u32, flow)
  for (let n = 0; n < 50; n++) flows.set(n, aFlow(n))
  const seen: number[] = []
  for (const [key, value] of flows.entries()) {
    t.same(value, aFlow(key))
    seen.push(key)
    flows.delete(key)
  }
  t.same(
    seen.sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, n) => n),
  )
  t.same([...flows.entries()], [])
})

t.test('batches write, read and delete many entries', async (t) => {
  const flows = (await loadProbe(t)).map('flows', u32, flow)
  await flows.updateBatch(Array.from({ length: MANY }, (_, n) => [n, aFlow(n)]))
  const found = await flows.lookupBatch()
  t.equal(found.length, MANY)
  t.same(
    found.filter(([key, value]) => value.packets !== key || value.bytes !== BigInt(key) << 32n),
    [],
  )
  t.equal(new Set(found.map(([key]) => key)).size, MANY)
  flows.delete(0)
  flows.delete(4096)
  await flows.deleteBatch(Array.from({ length: MANY - 1 }, (_, n) => n))
  t.same([...flows.entries()], [[MANY - 1, aFlow(MANY - 1)]], 'keys that are not there stop nothing')
})

t.test('batches of an array and of a type without batches', async (t) => {
  const array = createMap({ name: 'array', type: MAP_TYPE.array, maxEntries: 4096, key: u32, value: u64 })
  t.teardown(() => array.close())
  await array.updateBatch([[4095, 5n]])
  const found = await array.lookupBatch()
  t.equal(found.length, 4096)
  t.same(found.at(-1), [4095, 5n])
  await t.rejects(array.deleteBatch([1]), { code: 'ENOTSUPP' })
})

t.test('longest prefix match', async (t) => {
  const prefix = bytes(8)
  const net = (length: number, ...address: number[]) => Uint8Array.of(length, 0, 0, 0, ...address)
  const shape = { name: 'routes', type: MAP_TYPE.lpmTrie, maxEntries: 10, key: prefix, value: u32, flags: NO_PREALLOC }
  const routes = createMap(shape)
  t.teardown(() => routes.close())
  await routes.updateBatch([
    [net(8, 10, 0, 0, 0), 1],
    [net(24, 10, 1, 2, 0), 2],
  ])
  t.equal(routes.get(net(32, 10, 1, 2, 3)), 2)
  t.equal(routes.get(net(32, 10, 1, 3, 3)), 1)
  t.equal(routes.get(net(32, 11, 1, 3, 3)), undefined)
  t.equal((await routes.lookupBatch()).length, 2)
})

t.test('per-CPU values keep each CPU apart', async (t) => {
  const probe = await loadProbe(t)
  const cpus = possibleCpus()
  const stats = probe.map('stats', u32, perCpu(bytes(12), cpus))
  await runProgram(probe.program('rewrite').fd, { data: frame(100), ctx: skb(9) })
  const written = (stats.get(9) ?? []).filter((one) => one[0] !== 0)
  t.same(written, [Uint8Array.of(1, 0, 0, 0, 100, 0, 0, 0, 3, 0, 0, 0)])
  const values = Array.from({ length: cpus }, (_, cpu) => new Uint8Array(12).fill(cpu + 1))
  await stats.updateBatch([[3, values]])
  t.same(stats.get(3), values)
  t.equal((await stats.lookupBatch()).length, 2)
  t.throws(() => probe.map('stats', u32, bytes(12)), /values of [0-9]+ bytes where this agent expects 4 and 12/)
})

t.test('a table is replaced as a whole by swapping the inner map', async (t) => {
  const probe = await loadProbe(t)
  const program = probe.program('read_table').fd
  const table = probe.map('table', u32, u32)
  const inner = () => createMap({ name: 'inner', type: MAP_TYPE.hash, maxEntries: 1000, key: u32, value: u32 })
  const read = async () => (await runProgram(program, { data: frame() })).retval
  t.equal(await read(), 0, 'no table yet')
  for (const answer of [50, 60]) {
    const next = inner()
    await next.updateBatch(Array.from({ length: 1000 }, (_, n) => [n, answer]))
    await table.swap(0, next.fd)
    next.close()
    t.equal(await read(), answer)
  }
  const other = createMap({ name: 'other', type: MAP_TYPE.hash, maxEntries: 1000, key: u32, value: u64 })
  t.teardown(() => other.close())
  await t.rejects(table.swap(0, other.fd), /EINVAL: cannot swap an entry of map table/)
  t.equal(await read(), 60)
})

t.test('a pinned map is opened by its path and outlives its handles', async (t) => {
  const path = join(layoutDir(bpffs(t)), 'kept')
  const made = createMap({ name: 'kept', type: MAP_TYPE.hash, maxEntries: 4, key: u32, value: u64 })
  made.set(1, 2n)
  made.pin(path)
  t.throws(() => made.pin(path), { code: 'EEXIST' })
  made.close()
  const opened = openMap(path, u32, u64)
  t.equal(opened.get(1), 2n)
  opened.close()
  t.throws(() => openMap(`${path}2`, u32, u64), { code: 'ENOENT', message: /cannot open the map pinned at .*kept2/ })
})

t.test('a mapped array shares its memory with the programs', async (t) => {
  const probe = await loadProbe(t)
  const verdict = probe.map('verdict', u32, u64)
  const judge = async () => (await runProgram(probe.program('judge').fd, { data: frame() })).retval
  const memory = new MappedArray(verdict)
  memory.set(0, 1n)
  t.equal(await judge(), 1)
  t.equal(verdict.get(0), 1n)
  memory.set(0, 0n)
  t.equal(await judge(), 0)
  verdict.set(0, 0xfedcba9876543210n)
  t.equal(memory.get(0), 0xfedcba9876543210n)
  t.throws(() => memory.set(1, 1n), RangeError)
  memory.close()
  t.throws(() => memory.set(0, 1n), RangeError)
  t.throws(() => new MappedArray(probe.map('counts', u32, u64)), /cannot map the memory of map counts/)
})
