import t from 'tap'
import { flowRows } from '../room.ts'
import { flowState, type Seen } from '../state.ts'

const [FIN, SYN, RST, ACK] = [0x01, 0x02, 0x04, 0x10]
const [TCP, UDP, ICMP] = [6, 17, 1]
const second = 1000

t.test('state-14 D89 a flow is new, active, closed and then gone', async (t) => {
  const rows: [name: string, seen: Partial<Seen>, idle: number, state: string][] = [
    ['one way', { protocol: UDP }, 120, 'new'],
    ['both ways', { protocol: UDP, answered: true }, 120, 'active'],
    ['ICMP', { protocol: ICMP, answered: true }, 120, 'active'],
    ['a SYN', { protocol: TCP, tcp: [SYN, 0] }, 300, 'new'],
    ['a SYN and its answer', { protocol: TCP, tcp: [SYN, SYN | ACK], answered: true }, 300, 'new'],
    ['established', { protocol: TCP, tcp: [SYN | ACK, SYN | ACK], answered: true }, 3600, 'active'],
    ['seen in the middle', { protocol: TCP, tcp: [ACK, ACK], answered: true }, 3600, 'active'],
    ['one half closed', { protocol: TCP, tcp: [SYN | ACK | FIN, SYN | ACK], answered: true }, 3600, 'active'],
    ['closed', { protocol: TCP, tcp: [SYN | ACK | FIN, SYN | ACK | FIN], answered: true }, 0, 'closed'],
    ['reset', { protocol: TCP, tcp: [SYN | ACK, SYN | ACK | RST], answered: true }, 0, 'closed'],
    ['refused', { protocol: TCP, tcp: [SYN, RST | ACK], answered: true }, 0, 'closed'],
    ['flags mean nothing elsewhere', { protocol: UDP, tcp: [RST, FIN], answered: true }, 120, 'active'],
  ]
  for (const [name, seen, idle, state] of rows) {
    const at = (age: number) => flowState({ protocol: UDP, answered: false, tcp: [0, 0], ...seen, age })
    t.equal(at(0), state, name)
    t.equal(at(idle * second), state, `${name}: after ${idle} s`)
    t.equal(at(idle * second + 1), 'closed', `${name}: silent for longer`)
    t.equal(at((idle + 60) * second), 'closed', `${name}: told of for a minute`)
    t.equal(at((idle + 60) * second + 1), undefined, `${name}: no longer`)
  }
})

t.test('how many flows are kept follows the memory of the node', async (t) => {
  const gib = 2 ** 30
  t.same(flowRows(0.25 * gib), { flows4: 65_536, flows6: 16_384 })
  t.same(flowRows(2 * gib), { flows4: 262_144, flows6: 65_536 })
  t.same(flowRows(7.9 * gib), { flows4: 524_288, flows6: 131_072 })
  t.same(flowRows(8 * gib), { flows4: 1_048_576, flows6: 262_144 })
  t.same(flowRows(512 * gib), { flows4: 1_048_576, flows6: 262_144 })
})
