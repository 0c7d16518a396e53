import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { attachTcx } from '../../link.ts'
import { cable, lossWhile, ping } from '../../test/cable.ts'
import { runProgram } from '../../test_run.ts'
import { HOOKS, PORT_OBJECT } from '../maps.ts'
import { loadObject, loadPrograms } from './loaded.ts'

/** linux/bpf.h */
const [TCX_NEXT, TCX_DROP] = [0xffff_ffff, 2]

requireRoot(t)

t.test('a stub without program drops, and is counted', async (t) => {
  const { object, tallies } = await loadPrograms(t)
  for (const hook of Object.keys(HOOKS)) {
    const { retval } = await runProgram(object.program(`hook_${hook}`).fd, { data: Buffer.alloc(64) })
    t.equal(retval, TCX_DROP, hook)
  }
  t.equal((await tallies()).get('no_program'), 6)
})

t.test('a stub runs the program in its slot', async (t) => {
  const { object, maps, tallies } = await loadPrograms(t)
  for (const [hook, slot] of Object.entries(HOOKS)) await maps.programs.swap(slot, object.program(hook).fd)
  for (const hook of Object.keys(HOOKS)) {
    const { retval } = await runProgram(object.program(`hook_${hook}`).fd, { data: Buffer.alloc(64) })
    t.equal(retval, hook === 'host_out' ? TCX_NEXT : TCX_DROP, hook)
  }
  const counted = await tallies()
  t.equal(counted.get('no_port'), 4)
  t.equal(counted.get('unstamped'), 1)
  t.notOk(counted.get('no_program'))
})

t.test('the next agent replaces the programs of all ports without losing a frame', async (t) => {
  const first = await loadPrograms(t)
  const { peer, index } = cable(t)
  for (const [hook, slot] of Object.entries(HOOKS)) await first.maps.programs.swap(slot, first.object.program(hook).fd)
  first.ports.set(index, 0)
  const link = await attachTcx(first.object.program('hook_port_in'), index, 'ingress')
  t.teardown(() => link.close())
  t.equal(ping(peer, 5), 5)

  const second = await loadObject(t, PORT_OBJECT, first.pinDir)
  t.not(second.program('port_in').id, first.object.program('port_in').id)
  const slot = HOOKS.port_in
  let swaps = 0
  const lost = await lossWhile(peer, 400, async (ended) => {
    for (; !ended() && swaps < 500; swaps++)
      await first.maps.programs.swap(slot, (swaps % 2 ? first.object : second).program('port_in').fd)
  })
  t.equal(lost, 0)
  t.ok(swaps >= 10, `${swaps} swaps`)
  await first.maps.programs.swap(slot, second.program('port_in').fd)
  t.equal(first.maps.programs.get(slot), second.program('port_in').id)
  first.object.close()
  t.equal(ping(peer, 5), 5, 'the stub of the first agent runs the program of the second')
})
