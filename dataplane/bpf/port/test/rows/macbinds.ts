/** MAC bindings: hard and soft, by port, for every port, by VLAN. */
import { LOCK_HARD, LOCK_SOFT } from '../../../../numbers.ts'
import { NO_DEVICE } from '../../numbers.ts'
import { BROADCAST, type Tag } from '../packet.ts'
import { IP, MAC, NET, PORT, SLOT, type World } from '../world.ts'
import { datagram, drop, pass, type Row, redirect, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const from = (mac: string, ...tags: Tag[]) => datagram(mac, BROADCAST, IP.o1, '10.9.0.255', tags)
const softly = { ...pass(0), reasons: ['macbind_soft' as const] }

/** o1's MAC bound at `ifindex` (0: everywhere) for `vlan`; `lock` holds there. */
const bound =
  (lock: number, ifindex: number = PORT.o1, vlan = 0) =>
  (world: World) => {
    world.macbinds.set(MAC.o1, { ifindex, vlan, lock })
    world.locks.set(ifindex, lock)
  }
const [hard, soft] = [bound(LOCK_HARD), bound(LOCK_SOFT)]

const c1 = datagram(MAC.c1, MAC.c2, IP.c1, IP.c2)
/** The MAC of c1 bound, and the lock where that is. */
const endpoint = (lock: number, ifindex: number, vlan = 0, more: (world: World) => unknown = () => {}) => ({
  given(world: World) {
    world.macbinds.set(MAC.c1, { ifindex, vlan, lock })
    world.locks.set(ifindex, lock)
    more(world)
  },
})
const left = (world: World) => world.ports.delete(PORT.c1)
/** Another MAC is bound at the port. */
const locked = (lock: number, ifindex: number, more: (world: World) => unknown = () => {}) => ({
  given(world: World) {
    world.macbinds.set(MAC.nobody, { ifindex, vlan: 0, lock })
    world.locks.set(ifindex, lock)
    more(world)
  },
})
const { c1: C1, c2: C2 } = PORT
const moved = { ...pass(NET.c), reasons: [] }

const OF_ENDPOINTS: readonly Row[] = [
  row('an endpoint bound hard to its port', 'c1', c1, moved, endpoint(LOCK_HARD, C1)),
  row('an endpoint bound hard to another port', 'c1', c1, drop('macbind'), endpoint(LOCK_HARD, C2)),
  row(
    'an endpoint bound softly to another port',
    'c1',
    c1,
    { ...moved, reasons: ['macbind_soft'] },
    endpoint(LOCK_SOFT, C2),
  ),
  row('an endpoint bound to a device that is away', 'c1', c1, drop('macbind'), endpoint(LOCK_HARD, NO_DEVICE)),
  row('an endpoint bound hard to its port, by another', 'c2', c1, drop('macbind'), endpoint(LOCK_HARD, C1, 0, left)),
  row(
    'an endpoint bound hard to its port, by another that is locked softly',
    'c2',
    c1,
    drop('macbind'),
    endpoint(LOCK_HARD, C1, 0, (world) => {
      left(world)
      world.locks.set(C2, LOCK_SOFT)
    }),
  ),
  row('an endpoint bound hard to its port in VLAN 8', 'c1', c1, drop('macbind'), endpoint(LOCK_HARD, C1, 8)),
  row(
    'an endpoint bound hard to the port that it moves to',
    'c2',
    c1,
    drop('hairpin'),
    endpoint(LOCK_HARD, C2, 0, (world) => {
      left(world)
      world.endpoints.set(`${NET.c}/${MAC.c2}`, { address: IP.c2, claims: 0, home: C2, slot: SLOT.c2 })
    }),
  ),
  row('an endpoint bound hard to every port', 'c2', c1, moved, endpoint(LOCK_HARD, 0, 0, left)),
  row('an endpoint to a port that is locked for another MAC', 'c2', c1, drop('macbind'), locked(LOCK_HARD, C2, left)),
  row(
    'an endpoint to a port that is locked softly for another MAC',
    'c2',
    c1,
    { ...moved, reasons: ['macbind_soft'] },
    locked(LOCK_SOFT, C2, left),
  ),
  row('an endpoint at a port that is locked for another MAC since', 'c1', c1, moved, locked(LOCK_HARD, C1)),
]

export const MACBINDS: readonly Row[] = [
  row('macbind-04 hard: the bound MAC', 'o1', from(MAC.o1), pass(0), { given: hard }),
  row('macbind-04 hard: another MAC', 'o1', from(MAC.nobody), drop('macbind'), { given: hard }),
  row('macbind-04 hard: another MAC, tagged', 'o1', from(MAC.nobody, { vid: 8 }), drop('macbind'), { given: hard }),
  row('hard: another port is not concerned', 'o2', from(MAC.nobody), pass(0), { given: hard }),
  row('hard: the bound MAC on a port that nothing locks', 'o2', from(MAC.o1), pass(0), { given: hard }),
  row('macbind-05 soft: the bound MAC', 'o1', from(MAC.o1), pass(0), { given: soft }),
  row('macbind-05 soft: another MAC passes and is told', 'o1', from(MAC.nobody), softly, { given: soft }),
  row('hard for every port: the bound MAC on any', 'o2', from(MAC.o1), pass(0), { given: bound(LOCK_HARD, 0) }),
  row('hard for every port: another MAC on any', 'o2', from(MAC.nobody), drop('macbind'), {
    given: bound(LOCK_HARD, 0),
  }),
  row('soft for every port: another MAC', 'o2', from(MAC.nobody), softly, { given: bound(LOCK_SOFT, 0) }),
  row('soft for every port, hard for this one', 'o1', from(MAC.nobody), drop('macbind'), {
    given: (world) => {
      hard(world)
      world.locks.set(0, LOCK_SOFT)
    },
  }),
  row('hard for every port, soft for this one', 'o1', from(MAC.nobody), drop('macbind'), {
    given: (world) => {
      soft(world)
      world.locks.set(0, LOCK_HARD)
    },
  }),
  row('bound to one port, seen at another that is locked', 'o2', from(MAC.o1), drop('macbind'), {
    given: (world) => {
      hard(world)
      world.locks.set(PORT.o2, LOCK_HARD)
    },
  }),
  row('bound everywhere, the port locked by another binding', 'o2', from(MAC.o1), pass(0), {
    given: (world) => {
      world.macbinds.set(MAC.o1, { ifindex: 0, vlan: 0, lock: LOCK_SOFT })
      world.locks.set(PORT.o2, LOCK_HARD)
    },
  }),
  row('bound in VLAN 8: untagged', 'o1', from(MAC.o1), drop('macbind'), { given: bound(LOCK_HARD, PORT.o1, 8) }),
  row('bound in VLAN 8: tagged so', 'o1', from(MAC.o1, { vid: 8 }), pass(0), { given: bound(LOCK_HARD, PORT.o1, 8) }),
  row('bound in VLAN 8: tagged otherwise', 'o1', from(MAC.o1, { vid: 9 }), drop('macbind'), {
    given: bound(LOCK_HARD, PORT.o1, 8),
  }),
  row('bound in VLAN 8: tagged so within another', 'o1', from(MAC.o1, { vid: 9 }, { vid: 8 }), drop('macbind'), {
    given: bound(LOCK_HARD, PORT.o1, 8),
  }),
  row('bound in VLAN 8: tag beside the frame', 'o1', from(MAC.o1), pass(0), {
    given: bound(LOCK_HARD, PORT.o1, 8),
    beside: 0x8100_0008,
  }),
  row('macbind-07 after the last binding any MAC', 'o1', from(MAC.nobody), pass(0)),
  row('a binding without lock is not asked', 'o1', from(MAC.nobody), pass(0), {
    given: (world) => world.macbinds.set(MAC.o1, { ifindex: PORT.o1, vlan: 0, lock: LOCK_HARD }),
  }),
  row(
    'a MAC of an endpoint is bound without a row',
    'a1',
    datagram(MAC.a1, MAC.a2, IP.a1, IP.a2),
    redirect('a2', NET.a),
    {
      given: bound(LOCK_HARD, 0),
    },
  ),
  ...OF_ENDPOINTS,
  row('hard on a private port: another MAC', 'a1', from(MAC.nobody), drop('macbind'), { given: bound(LOCK_HARD, 0) }),
  row(
    'soft on a private port: another MAC is told twice and dropped',
    'a1',
    from(MAC.nobody),
    drop('unbound', 'macbind_soft'),
    {
      given: bound(LOCK_SOFT, 0),
    },
  ),
  row('a binding opens no private port', 'a1', from(MAC.o1), drop('unbound'), { given: bound(LOCK_HARD, 0) }),
  row(
    'a private source comes before the binding',
    'o1',
    datagram(MAC.nobody, BROADCAST, IP.c1, IP.c2),
    drop('private_address'),
    {
      given: hard,
    },
  ),
]
