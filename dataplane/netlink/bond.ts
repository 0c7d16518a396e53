/** Bonds as the kernel has them now: which members carry traffic, and whether this kernel can make bonds at all. */
import { existsSync } from 'node:fs'
import { KernelError } from '../libc.ts'
import { Attributes } from './attribute.ts'
import { askLink, createLink, decodeLink, deleteLink, getLink, type LinkRef } from './link.ts'
import type { Netlink } from './socket.ts'

const IFLA_LINKINFO = 18
const IFLA_INFO_KIND = 1
const IFLA_INFO_DATA = 2
const IFLA_INFO_SLAVE_KIND = 4
const IFLA_INFO_SLAVE_DATA = 5
const IFLA_BOND_ACTIVE_SLAVE = 2
const IFLA_BOND_AD_INFO = 23
const IFLA_BOND_AD_INFO_AGGREGATOR = 1
const IFLA_BOND_SLAVE_STATE = 1
const IFLA_BOND_SLAVE_MII_STATUS = 2
const IFLA_BOND_SLAVE_AD_AGGREGATOR_ID = 6
const IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE = 7
/** struct ifinfomsg */
const HEADER_SIZE = 16

/** include/net/bonding.h */
const BOND_STATE_ACTIVE = 0
/** Up, or about to be told down; what is about to be told up is down still. */
const MII_UP = new Set([0, 1])

/** Bits of the actor's state in a LACPDU (IEEE 802.1AX §6.4.2.3). */
const LACP_DISTRIBUTING = 0x20
const LACP_DEFAULTED = 0x40
const LACP_EXPIRED = 0x80

export interface BondMember {
  /** The bond sees a carrier. */
  carrier: boolean
  /** The bond sends by it. */
  active: boolean
  /** Of 802.3ad: whether it distributes in the aggregate that the bond uses, and whether a partner is heard. */
  lacp?: { aggregated: boolean; partner: boolean }
}

export interface BondState {
  /** Member that carries the traffic; absent while there is none, and in modes where more than one does. */
  active?: string
  /** By name, of the members asked for; what is not a member of this bond at the moment is left out. */
  members: Map<string, BondMember>
}

/** State of a bond and of those devices that are its members; undefined when there is no such bond. Rejects with KernelError. */
export async function readBond(
  netlink: Netlink,
  name: string,
  members: readonly string[],
): Promise<BondState | undefined> {
  const [bond, ...ports] = await netlink.askEach([name, ...members].map((ref: LinkRef) => askLink(ref)))
  const master = bond && present(bond)
  if (master === undefined) return undefined
  return readBondState(
    master,
    ports.flatMap((port) => (port ? (present(port) ?? []) : [])),
  )
}

/** Reads payloads of RTM_NEWLINK: a bond's, and those of devices that may be its members. Throws {@link WireError}. */
export function readBondState(bond: Buffer, ports: readonly Buffer[]): BondState | undefined {
  const info = infoOf(bond)
  if (info?.text(IFLA_INFO_KIND) !== 'bond') return undefined
  const { index } = decodeLink(bond)
  const data = info.nested(IFLA_INFO_DATA)
  const aggregator = data?.nested(IFLA_BOND_AD_INFO)?.u16(IFLA_BOND_AD_INFO_AGGREGATOR)
  const sender = data?.u32(IFLA_BOND_ACTIVE_SLAVE)
  const links = ports.map((payload) => ({ ...decodeLink(payload), state: memberOf(payload, aggregator) }))
  const mine = links.flatMap(({ name, master, state }) => (master === index && state ? [[name, state] as const] : []))
  const active = links.find((link) => link.index === sender)?.name
  return { members: new Map(mine), ...(active !== undefined && { active }) }
}

function memberOf(payload: Buffer, aggregator: number | undefined): BondMember | undefined {
  const info = infoOf(payload)
  const data = info?.text(IFLA_INFO_SLAVE_KIND) === 'bond' ? info.nested(IFLA_INFO_SLAVE_DATA) : undefined
  if (data === undefined) return undefined
  const port = data.u8(IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE)
  const own = data.u16(IFLA_BOND_SLAVE_AD_AGGREGATOR_ID)
  return {
    carrier: MII_UP.has(data.u8(IFLA_BOND_SLAVE_MII_STATUS) ?? -1),
    active: data.u8(IFLA_BOND_SLAVE_STATE) === BOND_STATE_ACTIVE,
    // Told in mode 802.3ad only.
    ...(port !== undefined &&
      own !== undefined && {
        lacp: {
          aggregated: own === aggregator && (port & LACP_DISTRIBUTING) !== 0,
          partner: (port & (LACP_DEFAULTED | LACP_EXPIRED)) === 0,
        },
      }),
  }
}

const infoOf = (payload: Buffer) => new Attributes(payload, HEADER_SIZE).nested(IFLA_LINKINFO)

function present(answer: { payload: Buffer } | KernelError): Buffer | undefined {
  if (!(answer instanceof KernelError)) return answer.payload
  if (answer.code === 'ENODEV') return undefined
  throw answer
}

/** A group address, which no device can have: a kernel that knows bonds says so before it makes anything. */
const IMPOSSIBLE = { name: 'stratum-probe', mac: '01:00:5e:00:00:00' }
/** What the module makes when it is loaded, unless it is told not to (max_bonds). */
const UNASKED = 'bond0'

/**
 * Whether this kernel can make bonds, loading its module if it must; resolves to why not. A bond that came with the module
 * is taken away again, for its name is the one that operators ask for.
 */
export async function whyNoBonds(netlink: Netlink): Promise<string | undefined> {
  const loaded = existsSync('/sys/module/bonding')
  const before = loaded ? undefined : await getLink(netlink, UNASKED)
  const [error] = await netlink.request([createLink('bond', IMPOSSIBLE)])
  if (error === undefined) await netlink.command(deleteLink(IMPOSSIBLE.name))
  const can = error === undefined || error.code === 'EADDRNOTAVAIL'
  if (!can) return `this kernel cannot make bonds (${error.extack ?? error.meaning})`
  const came = loaded || before ? undefined : await getLink(netlink, UNASKED)
  if (came?.kind === 'bond' && !came.up) await netlink.request([deleteLink(came.index)])
  return undefined
}
