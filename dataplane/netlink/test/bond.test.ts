/** What the kernel tells of bonds, read from messages made up here; and what it says where it knows none. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { KernelError } from '../../libc.ts'
import { Payload, WireError } from '../attribute.ts'
import { readBondState, whyNoBonds } from '../bond.ts'
import type { Netlink } from '../socket.ts'

const header = (index: number) => {
  const bytes = Buffer.alloc(16)
  bytes.writeInt32LE(index, 4)
  return bytes
}
/** `active`: index of the one that sends; `aggregator`: number of the one in use. */
const bond = (index: number, data: { active?: number; aggregator?: number }) =>
  new Payload()
    .raw(header(index))
    .text(3, 'bond0')
    .nest(18, (info) =>
      info.text(1, 'bond').nest(2, (settings) => {
        settings.u8(1, 1)
        if (data.active !== undefined) settings.u32(2, data.active)
        if (data.aggregator !== undefined) settings.nest(23, (ad) => ad.u16(1, data.aggregator ?? 0))
      }),
    )
    .finish()
interface Port {
  state?: number
  mii?: number
  lacp?: [aggregator: number, actor: number]
}
const port = (index: number, master: number, { state = 0, mii = 0, lacp }: Port = {}) =>
  new Payload()
    .raw(header(index))
    .text(3, `eth${index}`)
    .u32(10, master)
    .nest(18, (info) =>
      info.text(4, 'bond').nest(5, (slave) => {
        slave.u8(1, state).u8(2, mii)
        if (lacp) slave.u16(6, lacp[0]).u8(7, lacp[1])
      }),
    )
    .finish()

t.test('active-backup: who carries the traffic, and who has a carrier', async (t) => {
  const ports = [port(2, 9), port(3, 9, { state: 1 }), port(4, 9, { state: 1, mii: 2 }), port(5, 8)]
  const state = readBondState(bond(9, { active: 2 }), ports)
  t.equal(state?.active, 'eth2')
  t.same(Object.fromEntries(state?.members ?? []), {
    eth2: { carrier: true, active: true },
    eth3: { carrier: true, active: false },
    eth4: { carrier: false, active: false },
  })
  t.equal(readBondState(bond(9, {}), [])?.active, undefined)
  t.equal(readBondState(port(2, 9), []), undefined, 'no bond')
})

t.test('802.3ad: the aggregate in use, and whether a partner is heard', async (t) => {
  const [distributing, defaulted, expired] = [0x3d, 0x45, 0x80 | 0x3d]
  const ports = [distributing, defaulted, expired, 0x05].map((actor, at) => port(at + 2, 9, { lacp: [1, actor] }))
  const { members, active } = readBondState(bond(9, { aggregator: 1 }), [
    ...ports,
    port(6, 9, { lacp: [2, distributing] }),
  ]) ?? { members: new Map() }
  t.equal(active, undefined)
  t.same(
    [...members.values()].map(({ lacp }) => lacp),
    [
      { aggregated: true, partner: true },
      { aggregated: false, partner: false },
      { aggregated: true, partner: false },
      { aggregated: false, partner: true },
      { aggregated: false, partner: true },
    ],
  )
})

t.test('whatever the bytes are, they are read or refused', async (t) => {
  const bytes = fc.uint8Array({ maxLength: 200 }).map((it) => Buffer.from(it))
  const damaged = fc.tuple(fc.nat(120), fc.nat(255)).map(([at, value]) => {
    const whole = Buffer.from(port(2, 9, { lacp: [1, 0x3d] }))
    whole[at % whole.length] = value
    return whole
  })
  const survives = (first: Buffer, second: Buffer) => {
    try {
      readBondState(first, [second])
    } catch (error) {
      if (!(error instanceof WireError || error instanceof RangeError)) throw error
    }
  }
  fc.assert(fc.property(bytes, bytes, survives))
  fc.assert(fc.property(damaged, (broken) => survives(bond(9, { aggregator: 1 }), broken)))
  t.pass('1000 of them')
})

t.test('a kernel without the driver is told from one that has it', async (t) => {
  const answering = (error: KernelError | undefined) => {
    const sent: number[] = []
    const netlink = {
      request: async (messages: readonly { type: number }[]) => {
        sent.push(...messages.map(({ type }) => type))
        return [error]
      },
      command: async ({ type }: { type: number }) => void sent.push(type),
      ask: async () => {
        throw new KernelError(19)
      },
    }
    return { netlink: netlink as unknown as Netlink, sent }
  }
  const [EOPNOTSUPP, EADDRNOTAVAIL] = [95, 99]
  const without = answering(new KernelError(EOPNOTSUPP, 'Unknown device type'))
  t.equal(await whyNoBonds(without.netlink), 'this kernel cannot make bonds (Unknown device type)')
  t.equal(await whyNoBonds(answering(new KernelError(EADDRNOTAVAIL)).netlink), undefined)
  const careless = answering(undefined)
  t.equal(await whyNoBonds(careless.netlink), undefined)
  t.same(careless.sent, [16, 17], 'what was made all the same is removed')
})
