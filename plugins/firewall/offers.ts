/** What the firewall offers to other areas: what they serve to known peers stays open under a default deny (D71). */
import type { SetElement } from '../../dataplane/entry.ts'
import type { Prefix } from '../../dataplane/nft/text.ts'
import { openings } from '../../dataplane/numbers.ts'
import { openingOf } from './skeleton.ts'

/**
 * Lets `source` reach a port of the node unless a rule is against it. Of one protocol, port and source there may be one
 * such entry, whoever renders it.
 */
export function opening(protocol: 'tcp' | 'udp', port: number, { family, text }: Prefix): SetElement {
  const [set, element] = [openings(family), openingOf(protocol, port, text)]
  // The elements of a set are observed as those of the area that declares it.
  return { kind: 'element', key: `firewall/${set}/${element}`, set, element }
}
