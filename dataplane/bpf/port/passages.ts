/** Passages of port entries, as the driver carries them out. */
import type { Passage } from '../../entry.ts'
import type { PortEntry } from './entries.ts'

/** What its tenant may not, a net may at no instant: that comes before all else of the net, and goes after it. */
export function inTurn(diff: readonly Passage[]): Passage[] {
  const turn = ({ before, after }: Passage) =>
    after?.kind === 'tenant_net' ? 0 : before?.kind === 'tenant_net' ? 2 : 1
  return [0, 1, 2].flatMap((one) => diff.filter((passage) => turn(passage) === one))
}

export const damaged = (entry: PortEntry): PortEntry =>
  entry.kind === 'uplink' || entry.kind === 'overlay' || entry.kind === 'stray' ? entry : { ...entry, damaged: true }

/** An entry as it shall be, when the undoing of a repair asks for the damaged one. */
export function whole(entry: PortEntry): PortEntry {
  if (!('damaged' in entry)) return entry
  const { damaged: _, ...rest } = entry
  return rest
}
