/** Which address of the node is its VTEP. Pure. */
import type { Address } from '../../dataplane/netlink/address.ts'
import type { Link } from '../../dataplane/netlink/link.ts'
import type { LocalRow } from './tables.ts'

/** MTU of Ethernet, where the device that has the address says nothing of what goes out. */
const USUAL_MTU = 1500
/** RT_SCOPE_UNIVERSE of linux/rtnetlink.h */
const GLOBAL = 0

export interface Wanted {
  /** vxlan_local_ip, canonical; '' for none. */
  address: string
  /** Device that leads off the node; '' for none. */
  uplink: string
}

export type Local = Pick<LocalRow, 'address' | 'mtu'>

/** The address that was asked for, else the first global one of the uplink, IPv4 before IPv6; or what to do about there being none. */
export function chooseLocal(
  links: readonly Link[],
  all: readonly Address[],
  { address, uplink }: Wanted,
): Local | string {
  const usable = all.filter(({ scope, unusable }) => scope === GLOBAL && !unusable)
  const out = links.find(({ name }) => name === uplink)
  if (address !== '') {
    const holder = usable.find((one) => bare(one) === address)
    if (holder === undefined) return `no device has ${address}: give it to one, or change vxlan_local_ip`
    const on = links.find(({ index }) => index === holder.index)
    // An address of the loopback is reached by the uplink.
    return { address, mtu: (on?.name === 'lo' ? out : on)?.mtu ?? USUAL_MTU }
  }
  if (out === undefined && uplink !== '')
    return `the uplink ${uplink} is not there: make that device, name the one that is the uplink, or set vxlan_local_ip`
  if (out === undefined) return 'the node has no uplink: set vxlan_local_ip to one of its addresses'
  const [first] = usable.filter(({ index }) => index === out.index).sort((a, b) => a.version - b.version)
  if (first === undefined) return `the uplink ${uplink} has no global address: give it one, or set vxlan_local_ip`
  return { address: bare(first), mtu: out.mtu }
}

const bare = ({ cidr }: Address): string => cidr.slice(0, cidr.indexOf('/'))
