/**
 * Addresses of links. IFA_PROTO, the owner's number, tells ours (Linux 5.18). The first IPv4 address of a subnet is the
 * one that the node sends from; when its removal is taken back, it comes after the others of that subnet.
 */
import { addAddress, deleteAddress, listAddresses } from '../address.ts'
import type { AddressEntry } from '../entries.ts'
import { parsePrefix } from '../inet.ts'
import { type LinkDetail, promotesSecondaries, setPromoteSecondaries } from '../link-detail.ts'
import type { Message } from '../wire.ts'
import { noSuchLink, type Refused } from './refusal.ts'
import type { Scene } from './scene.ts'
import type { Round, Step } from './steps.ts'

export function addsAddress(scene: Scene, entry: AddressEntry): Step | Refused {
  const link = scene.link(entry.link)
  if (link === undefined) return noSuchLink(entry, entry.link)
  return { entry, rounds: [{ messages: addition(scene, entry), undo: () => deletion(scene, entry) }] }
}

/**
 * Those of `entries` that are ours still. Reads the addresses of each link that one of them is on: the kernel does not
 * compare the owner in a deletion, and removes with the first IPv4 address of a subnet all others of it.
 */
export async function removesAddresses(scene: Scene, entries: readonly AddressEntry[]): Promise<Step[]> {
  const steps: Step[] = []
  for (const name of new Set(entries.map((entry) => entry.link))) {
    const link = scene.link(name)
    if (link === undefined) continue
    const present = await listAddresses(scene.netlink, { index: link.index })
    const own = entries.filter((it) => it.link === name)
    // With the last IPv4 address the kernel removes all IPv4 routes by the link.
    const left = present.filter(({ version, cidr }) => version === 4 && !own.some(({ address }) => address === cidr))
    if (left.length === 0) scene.disturbed.add(name)
    for (const entry of own) {
      const found = present.find(({ cidr }) => cidr === entry.address)
      if (found === undefined || found.protocol !== scene.owner(entry)) continue
      const { version, length } = parsePrefix(entry.address)
      const others = version === 4 && length < 32 && present.length > 1 && !promotesSecondaries(link)
      steps.push({ entry, rounds: [others ? keepingOthers(scene, link, entry) : removal(scene, entry)] })
    }
  }
  return steps
}

function removal(scene: Scene, entry: AddressEntry): Round {
  return { messages: deletion(scene, entry), undo: () => addition(scene, entry) }
}

function keepingOthers(scene: Scene, { index }: LinkDetail, entry: AddressEntry): Round {
  const [on, off] = [setPromoteSecondaries(index, true), setPromoteSecondaries(index, false)]
  return {
    messages: [on, ...deletion(scene, entry), off],
    main: 1,
    undo: () => [...addition(scene, entry), ...(scene.link(entry.link)?.index === index ? [off] : [])],
  }
}

/**
 * The link must be known to the scene; where it is gone there is nothing to do.
 * IPv6 addresses skip duplicate address detection: for its second the address would not answer although the change that
 * made it has been, and one that moves would lose the contest with the node that lets go of it in that moment. An IPv6
 * address that moves is deprecated besides: the latest one is what the kernel would send from, and the node's own
 * connections would break when it moves. It answers like any other.
 */
function addition(scene: Scene, entry: AddressEntry): Message[] {
  const index = scene.link(entry.link)?.index
  if (index === undefined) return []
  const { address: cidr, noPrefixRoute, scope, floating } = entry
  const deprecated = floating === true && parsePrefix(cidr).version === 6
  return [addAddress({ index, cidr, noPrefixRoute, scope, deprecated, noDad: true, protocol: scene.owner(entry) })]
}

function deletion(scene: Scene, { link, address }: AddressEntry): Message[] {
  const index = scene.link(link)?.index
  return index === undefined ? [] : [deleteAddress({ index, cidr: address })]
}
