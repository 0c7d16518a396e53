import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { u32, u64 } from '../codec.ts'
import { runProgram } from '../test_run.ts'
import { counter, frame, loadProbe, skb } from './support.ts'

requireRoot(t)

t.test('a run answers with the verdict, the packet and the context', async (t) => {
  const probe = await loadProbe(t, { rodata: { mark: Buffer.from(Uint32Array.of(0xbeef).buffer) } })
  const data = frame(80)
  const output = await runProgram(probe.program('rewrite').fd, { data, ctx: skb(7) })
  t.equal(output.retval, 5)
  t.equal(output.dataOut.length, 80)
  t.equal(output.dataOut[0], 0xfe)
  t.equal(data[0], 0, 'the packet given stays as it was')
  t.equal(output.ctxOut.length, 192)
  t.equal(output.ctxOut.readUInt32LE(8), 0xbeef)
  t.ok(output.durationNs > 0)
})

t.test('a run is repeated', async (t) => {
  const probe = await loadProbe(t)
  const { retval, ctxOut } = await runProgram(probe.program('count_xdp').fd, { data: frame(), repeat: 1000 })
  t.equal(retval, 2)
  t.equal(ctxOut.length, 0)
  t.equal(counter(probe, 2), 1000)
})

t.test('netfilter programs run on a packet without Ethernet header', async (t) => {
  const probe = await loadProbe(t)
  const data = frame().subarray(14)
  data[0] = 0x45
  for (const verdict of [0, 1]) {
    probe.map('verdict', u32, u64).set(0, BigInt(verdict))
    t.equal((await runProgram(probe.program('judge').fd, { data })).retval, verdict)
  }
})

t.test('a packet that the kernel cannot take is refused', async (t) => {
  const probe = await loadProbe(t)
  await t.rejects(runProgram(probe.program('rewrite').fd, { data: Buffer.alloc(4) }), {
    code: 'EINVAL',
    message: 'EINVAL: cannot run the program',
  })
})
