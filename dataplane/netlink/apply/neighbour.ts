/** Permanent neighbours. NDA_PROTOCOL, the owner's number, tells ours. What the kernel learned is nobody's. */
import { KernelError } from '../../libc.ts'
import type { NeighbourEntry } from '../entries.ts'
import { askNeighbour, decodeNeighbour, deleteNeighbour, type Neighbour, replaceNeighbour } from '../neighbour.ts'
import type { Message } from '../wire.ts'
import { foreign, noSuchLink, type Refused } from './refusal.ts'
import type { Scene } from './scene.ts'
import type { Step } from './steps.ts'

/** What stands at the place of each entry, in the same order; undefined also where the link is gone. */
export async function askFor(
  scene: Scene,
  entries: readonly NeighbourEntry[],
): Promise<ReadonlyMap<NeighbourEntry, Neighbour>> {
  const there = entries.flatMap((entry) => {
    const index = scene.link(entry.link)?.index
    return index === undefined ? [] : [{ entry, question: askNeighbour({ index, address: entry.address }) }]
  })
  const answers = await scene.netlink.askEach(there.map(({ question }) => question))
  const found = new Map<NeighbourEntry, Neighbour>()
  for (const [at, { entry }] of there.entries()) {
    const answer = answers[at]
    if (answer instanceof KernelError && answer.code !== 'ENOENT') throw answer
    const neighbour =
      answer instanceof KernelError || answer === undefined ? undefined : decodeNeighbour(answer.payload)
    if (neighbour) found.set(entry, neighbour)
  }
  return found
}

/** Makes it, in the place of what was learned or of an older one of ours. */
export function setsNeighbour(scene: Scene, entry: NeighbourEntry, present: Neighbour | undefined): Step | Refused {
  const index = scene.link(entry.link)?.index
  if (index === undefined) return noSuchLink(entry, entry.link)
  const { address, mac } = entry
  const own = present !== undefined && isOurs(scene, entry, present)
  if (present?.state === 'permanent' && !own) return foreign(entry)
  const protocol = scene.owner(entry)
  const old = own ? present.mac : undefined
  const undo = again(scene, entry, (there) =>
    old === undefined
      ? deleteNeighbour({ index: there, address })
      : replaceNeighbour({ index: there, address, mac: old, protocol }),
  )
  return { entry, rounds: [{ messages: [replaceNeighbour({ index, address, mac, protocol })], undo }] }
}

/** Undefined when it is not there any more, or not ours. */
export function removesNeighbour(
  scene: Scene,
  entry: NeighbourEntry,
  present: Neighbour | undefined,
): Step | undefined {
  const index = scene.link(entry.link)?.index
  if (index === undefined || present?.mac === undefined || !isOurs(scene, entry, present)) return undefined
  const { address } = entry
  const old = { address, mac: present.mac, protocol: scene.owner(entry) }
  const undo = again(scene, entry, (there) => replaceNeighbour({ index: there, ...old }))
  return { entry, rounds: [{ messages: [deleteNeighbour({ index, address })], undo }] }
}

/** With the link as it is then; where that is gone there is nothing to do. */
function again(scene: Scene, { link }: NeighbourEntry, message: (index: number) => Message): () => Message[] {
  return () => {
    const index = scene.link(link)?.index
    return index === undefined ? [] : [message(index)]
  }
}

function isOurs(scene: Scene, entry: NeighbourEntry, { state, protocol }: Neighbour): boolean {
  return state === 'permanent' && protocol === scene.owner(entry)
}
