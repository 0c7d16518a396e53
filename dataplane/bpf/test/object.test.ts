import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { layoutDir } from '../bpffs.ts'
import { bytes, u32, u64 } from '../codec.ts'
import { bindLibbpf } from '../libbpf.ts'
import { openMap } from '../map.ts'
import { openObject } from '../object.ts'
import { runProgram } from '../test_run.ts'
import { bpffs, counter, flow, frame, loadProbe, objectPath, skb } from './support.ts'

t.test('a machine without libbpf is told what to install', async (t) => {
  t.throws(() => bindLibbpf('libbpf.so.0.absent'), { message: 'libbpf.so.0.absent is missing: install libbpf1' })
})

t.test('an object that was not built is told so', async (t) => {
  t.throws(() => openObject('/absent.bpf.o'), /absent.bpf.o is missing: build it with clang/)
})

requireRoot(t)

t.test('a loaded object gives its programs and maps by name', async (t) => {
  const probe = await loadProbe(t)
  const program = probe.program('count_first')
  t.match(program, { name: 'count_first', fd: Number, id: Number })
  t.equal((await runProgram(program.fd, { data: frame() })).retval, 0xffffffff)
  t.equal(counter(probe, 0), 1)
  t.throws(() => probe.program('nobody'), /probe.bpf.o has no program nobody/)
  t.throws(() => probe.map('nobody', u32, u32), /probe.bpf.o has no map nobody/)
  t.same(probe.warnings, [])
})

t.test('constants are set before loading and their size is checked', async (t) => {
  const rodata = { step: Buffer.from(BigUint64Array.of(5n).buffer), mark: Buffer.from(Uint32Array.of(0xabcd).buffer) }
  const probe = await loadProbe(t, { rodata })
  const { ctxOut } = await runProgram(probe.program('rewrite').fd, { data: frame(), ctx: skb(1) })
  t.equal(ctxOut.readUInt32LE(8), 0xabcd)
  await runProgram(probe.program('count_first').fd, { data: frame(), repeat: 3 })
  t.equal(counter(probe, 0), 15)
  const open = (rodata: Record<string, Uint8Array>) => () => openObject(objectPath('probe'), { rodata })
  t.throws(open({ step: Buffer.alloc(4) }), /constant step has 8 bytes, not 4/)
  t.throws(open({ stride: Buffer.alloc(4) }), /has no constant stride/)
})

t.test('a refused program is reported with its name and the log of the verifier', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const object = openObject(objectPath('refused'), { pinDir })
  await t.rejects(object.load(), {
    name: 'KernelError',
    code: 'EACCES',
    message: /cannot load .*refused\.bpf\.o\n.*prog 'trust_blindly'.*R0 invalid mem access 'map_value_or_null'/s,
  })
  t.same(readdirSync(pinDir), [], 'its map is not left behind')
  t.throws(() => object.program('trust_blindly'), /is closed, not loaded/)
  await t.rejects(object.load(), /is closed/)
})

t.test('loads that run at the same time hear only of themselves', async (t) => {
  const refused = [1, 2].map(() => openObject(objectPath('refused'), { pinDir: layoutDir(bpffs(t)) }))
  const [first, second, good] = await Promise.allSettled([...refused.map((one) => one.load()), loadProbe(t)])
  t.equal(good?.status, 'fulfilled')
  for (const result of [first, second]) {
    const text = result?.status === 'rejected' ? String(result.reason) : ''
    t.equal(text.split("prog 'trust_blindly': BPF program load failed").length, 2)
  }
})

t.test('an object is not freed while the kernel reads it', async (t) => {
  const object = openObject(objectPath('probe'), { pinDir: layoutDir(bpffs(t)) })
  const loading = object.load()
  t.throws(() => object.close(), /is loading: close it afterwards/)
  await t.rejects(object.load(), /is loading/)
  await loading
  await t.rejects(object.load(), /is loaded/)
  object.close()
  object.close()
})

t.test('a map pinned with another layout is not taken over', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const probe = await loadProbe(t, { pinDir })
  probe.map('flows', u32, flow).set(1, { packets: 1, port: 2, bytes: 3n })
  const relaid = openObject(objectPath('relaid'), { pinDir })
  await t.rejects(relaid.load(), {
    code: 'EINVAL',
    message: /another layout: raise BPF_LAYOUT in dataplane\/numbers.ts\n.*pinned map at '.*flows': parameter mismatch/,
  })
  t.throws(() => openMap(join(pinDir, 'flows'), u32, bytes(24)), {
    message:
      'map flows has keys of 4 and values of 16 bytes where this agent expects 4 and 24: ' +
      'it was made by another version; raise BPF_LAYOUT in dataplane/numbers.ts',
  })
  t.ok(existsSync(join(pinDir, 'flows')))
  t.same(probe.map('flows', u32, flow).get(1), { packets: 1, port: 2, bytes: 3n })
})

t.test('the next agent finds the pinned maps with their content', async (t) => {
  const pinDir = layoutDir(bpffs(t))
  const first = await loadProbe(t, { pinDir })
  first.map('counts', u32, u64).set(2, 77n)
  first.close()
  const second = await loadProbe(t, { pinDir })
  t.equal(second.map('counts', u32, u64).get(2), 77n)
  t.notOk(existsSync(join(pinDir, 'verdict')), 'a map that does not ask for it is not pinned')
})
