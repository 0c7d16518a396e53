/** The other members as the store has them, of whom the kernel lets in no others. */
import { system } from '../../core/state/events.ts'
import type { EngineContext } from './engine.ts'
import { MEMBERS_REF, queries } from './queries.ts'

type Changing = Pick<EngineContext, 'mutate'>

/** Resolves once the kernel lets in what comes from there. */
export async function noteAdmitted({ mutate }: Changing, node: string, address: string): Promise<void> {
  await mutate(system('cluster'), (tx) => {
    const q = queries(tx)
    const known = q.members.all().some((row) => row.node === node && row.address === address)
    if (!known) q.seen.run({ node, address, voter: 0, lastSeen: null })
    return { result: undefined, touch: [MEMBERS_REF], events: [] }
  })
}

/** Resolves once the kernel keeps out what comes from there. */
export async function noteGone({ mutate }: Changing, node: string): Promise<void> {
  await mutate(system('cluster'), (tx) => {
    queries(tx).gone.run({ node })
    return { result: undefined, touch: [MEMBERS_REF], events: [] }
  })
}
