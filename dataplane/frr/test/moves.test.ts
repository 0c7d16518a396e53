/** The state of a session that follows from moves of its machines; and lines of the log that may be anything. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { readLine } from '../live-log.ts'
import { openMachines, readMove } from '../moves.ts'

const RUNS = Number(process.env.FUZZ ?? 2000)
const A = '10.7.0.2'

const told = (moves: readonly string[], first?: 'Idle' | 'Active') => {
  const machines = openMachines()
  if (first) machines.settle([{ address: A, state: first }])
  return moves.map((it) => {
    const [from = '', to = ''] = it.split(' ')
    return machines.move({ address: A, from, to })
  })
}

t.test('a move is read from its line, and from no other', async (t) => {
  t.same(readMove('fd07::2 went from Idle to Active'), { address: 'fd07::2', from: 'Idle', to: 'Active' })
  for (const fd of [-1, 20])
    t.same(readMove(`${A} fd ${fd} went from OpenSent to Idle`), { address: A, from: 'OpenSent', to: 'Idle' }, 'FRR 10')
  for (const text of [
    '',
    `${A} fd went from Idle to Active`,
    'x went from Idle to Active',
    `${A} went from Idle to Active again`,
    `${A} [FSM] Idle->Active`,
  ])
    t.equal(readMove(text), undefined, text)
})

t.test('one machine goes its way and back', async (t) => {
  t.same(
    told([
      'Idle Connect',
      'Connect OpenSent',
      'OpenSent OpenConfirm',
      'OpenConfirm Established',
      'Established Clearing',
      'Clearing Idle',
    ]),
    ['Connect', 'OpenSent', 'OpenConfirm', 'Established', 'Idle', 'Idle'],
  )
})

t.test('of two connections the farther is the session, whichever of them is closed', async (t) => {
  const collision = ['Idle Active', 'Active OpenSent', 'Active Connect', 'OpenSent OpenConfirm', 'Connect OpenSent']
  const [both, one] = [
    ['Active', 'OpenSent', 'OpenSent', 'OpenConfirm', 'OpenConfirm'],
    ['Established', 'Established'],
  ]
  t.same(told([...collision, 'OpenConfirm Established', 'OpenSent Deleted'], 'Active'), [...both, ...one])
  t.same(told([...collision, 'OpenConfirm Deleted', 'OpenSent OpenConfirm'], 'Active'), [
    ...both,
    'OpenSent',
    'OpenConfirm',
  ])
})

t.test('what does not fit is said so, and a neighbor that was deleted begins anew', async (t) => {
  t.same(told(['OpenSent OpenConfirm'], 'Active'), [undefined])
  t.same(told(['Idle Active', 'Active Deleted', 'Idle Connect']), ['Active', 'Idle', 'Connect'])
})

t.test('every session is as far as the farther of its machines, in whatever order they move', async () => {
  const states = ['Idle', 'Connect', 'Active', 'OpenSent', 'OpenConfirm', 'Established'] as const
  const step = fc.record({ machine: fc.integer({ min: 0, max: 1 }), to: fc.constantFrom(...states) })
  const far = (state: string) => (state === 'Connect' || state === 'Active' ? 1.5 : states.indexOf(state as 'Idle'))
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const [machines, real] = [openMachines(), ['Active', 'Active']]
      machines.settle([{ address: A, state: 'Active' }])
      machines.move({ address: A, from: 'Idle', to: 'Active' })
      return steps.every(({ machine, to }) => {
        const state = machines.move({ address: A, from: real[machine] ?? '', to })
        real[machine] = to
        return state !== undefined && far(state) === Math.max(...real.map(far))
      })
    }),
    { numRuns: RUNS, seed: 7 },
  )
})

t.test('a line is read as bgpd writes it, and whatever else it may be nothing is thrown', async (t) => {
  const header = Buffer.alloc(80)
  header.writeBigUInt64LE(1_795_356_013n, 0)
  header.writeUInt32LE(7_900_000, 8)
  for (const [at, value] of [
    [12, 80],
    [32, 3],
    [44, 10],
    [48, 4],
  ] as const)
    header.writeUInt32LE(value, at)
  t.same(readLine(Buffer.concat([header, Buffer.from('[X] text..')])), {
    text: 'text..',
    at: 1_795_356_013_007,
    lost: 3,
  })
  t.equal(readLine(Buffer.concat([header, Buffer.from('short')])), undefined)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const line = readLine(Buffer.from(bytes))
      return line === undefined || line.text.length <= bytes.length
    }),
    { numRuns: RUNS, seed: 8 },
  )
})
