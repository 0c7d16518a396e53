/** What a bond takes and what is refused before anything is sent, over a socket made up here: it needs no bonding. */
import t from 'tap'
import { KernelError } from '../../libc.ts'
import { Journal } from '../apply/journal.ts'
import { joins } from '../apply/member.ts'
import { Scene } from '../apply/scene.ts'
import { carryOut } from '../apply/steps.ts'
import { Attributes, Payload } from '../attribute.ts'
import { member } from '../entries.ts'
import { RTM_NEWLINK } from '../link.ts'
import { decodeDetail } from '../link-detail.ts'
import type { Netlink } from '../socket.ts'
import type { Message } from '../wire.ts'

const [ETHER, LOOPBACK] = [1, 772]
const [IFF_UP, IFLA_MASTER, IFLA_MAX_MTU, EPERM] = [1, 10, 51, 1]

interface Made {
  index: number
  name: string
  type?: number
  up?: boolean
  mtu?: number
  maxMtu?: number
  kind?: string
  master?: number
}

/** RTM_NEWLINK. */
function link({ index, name, type = ETHER, up = false, mtu = 1500, maxMtu, kind, master }: Made): Buffer {
  const header = Buffer.alloc(16)
  header.writeUInt16LE(type, 2)
  header.writeInt32LE(index, 4)
  header.writeUInt32LE(up ? IFF_UP : 0, 8)
  const payload = new Payload().raw(header).text(3, name).u32(4, mtu)
  if (master !== undefined) payload.u32(IFLA_MASTER, master)
  if (kind !== undefined) payload.nest(18, (info) => info.text(1, kind))
  if (maxMtu !== undefined) payload.u32(IFLA_MAX_MTU, maxMtu)
  return payload.finish()
}

/** What a message of setLink asks for: `up`, `down`, `into <index>`, `out`. */
function said(message: Message): string {
  const payload = Buffer.from(message.payload)
  const master = new Attributes(payload, 16).u32(IFLA_MASTER)
  if (master !== undefined) return `${payload.readInt32LE(4)} ${master === 0 ? 'out' : `into ${master}`}`
  return `${payload.readInt32LE(4)} ${payload.readUInt32LE(8) & IFF_UP ? 'up' : 'down'}`
}

/** A kernel with these links, that refuses what `refused` says; `sends` is what it got, send by send. */
async function kernel(links: readonly Made[], refused: (what: string) => boolean = () => false) {
  const sends: string[][] = []
  const netlink = {
    request: async (messages: readonly Message[]) => {
      const all = messages.map(said)
      if (all.length > 0) sends.push(all)
      return all.map((what) => (refused(what) ? new KernelError(EPERM) : undefined))
    },
    askEach: async (messages: readonly Message[]) =>
      messages.map(({ payload }) => {
        const name = new Attributes(Buffer.from(payload), 16).text(3)
        const found = links.find((one) => one.name === name)
        return found ? { type: RTM_NEWLINK, flags: 0, payload: link(found) } : new KernelError(19)
      }),
  }
  // What of a socket is used here.
  const scene = new Scene(netlink as unknown as Netlink, new Journal(), new Map([['x', 7]]))
  await scene.ask(['nic', 'bond0', 'bond1', 'br0'])
  return { scene, sends }
}

const BOND: Made = { index: 8, name: 'bond0', kind: 'bond', mtu: 9000 }
const entry = member('x', 'nic', 'bond0')

t.test('what a link can take is read from its message', async (t) => {
  t.match(decodeDetail(link({ index: 2, name: 'nic', maxMtu: 1500 })), { ethernet: true, maxMtu: 1500 })
  const other = decodeDetail(link({ index: 1, name: 'lo', type: LOOPBACK, maxMtu: 0 }))
  t.same([other.ethernet, 'maxMtu' in other], [false, false])
})

t.test('what no bond takes is refused before anything is sent', async (t) => {
  for (const [made, why] of [
    [{ type: LOOPBACK, maxMtu: 65535 }, /interface nic cannot be in bond bond0: it is no Ethernet device/],
    [{ maxMtu: 8999 }, /an MTU of at most 8999, and that of the bond is 9000/],
  ] as const) {
    const { scene, sends } = await kernel([BOND, { index: 2, name: 'nic', up: true, ...made }])
    t.match(joins(scene, entry, undefined), { code: 'EINVAL', text: why })
    t.same([sends, [...scene.disturbed]], [[], []])
  }
  for (const made of [{ maxMtu: 9000 }, { maxMtu: 0 }, {}]) {
    const { scene } = await kernel([BOND, { index: 2, name: 'nic', up: true, ...made }])
    t.match(joins(scene, entry, undefined), { rounds: [{}] }, JSON.stringify(made))
  }
  const { scene } = await kernel([
    { index: 9, name: 'br0', kind: 'bridge', mtu: 9000 },
    { index: 2, name: 'nic', up: true, maxMtu: 1500 },
  ])
  t.match(joins(scene, member('x', 'nic', 'br0'), undefined), { rounds: [{}] }, 'a bridge takes it')
})

t.test('a device is down and in its bond by one send, and comes out up', async (t) => {
  const { scene, sends } = await kernel([BOND, { index: 2, name: 'nic', up: true }])
  const step = joins(scene, entry, undefined)
  if (step === undefined || !('rounds' in step)) throw new Error('it is taken')
  t.same(await carryOut(scene, [step]), [])
  t.same(sends, [['2 down', '2 into 8']])
  await scene.journal.rollback()
  t.same(sends.slice(1), [['2 out', '2 up']])
})

t.test('a device that the bond refuses after all is up again, and where it was', async (t) => {
  const refused = (what: string) => what === '2 into 8'
  const out = await kernel([BOND, { index: 2, name: 'nic', up: true }], refused)
  const step = joins(out.scene, entry, undefined)
  if (step === undefined || !('rounds' in step)) throw new Error('it is tried')
  t.match(await carryOut(out.scene, [step]), [{ code: 'EPERM' }])
  t.same(out.sends, [
    ['2 down', '2 into 8'],
    ['2 out', '2 up'],
  ])

  const links = [BOND, { ...BOND, index: 9, name: 'bond1' }, { index: 2, name: 'nic', up: true, master: 9 }]
  const moved = await kernel(links, refused)
  const move = joins(moved.scene, entry, member('x', 'nic', 'bond1'))
  if (move === undefined || !('rounds' in move)) throw new Error('it is tried')
  t.match(await carryOut(moved.scene, [move]), [{ code: 'EPERM' }])
  t.same(moved.sends, [
    ['2 down', '2 into 8'],
    ['2 into 9', '2 up'],
  ])
})
