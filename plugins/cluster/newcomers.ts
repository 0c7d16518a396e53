/** Lets nodes that come by a code call at the door, as long as there is a code that they can come by. */
import type { Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import type { Cluster } from './cluster.ts'
import { goodUntil } from './codes.ts'
import { MEMBERS_REF, queries } from './queries.ts'
import { self } from './tables.ts'

/** Codes are made, used and revoked at other members, too. */
const EVERY_MS = 1000

type Followed = Pick<Cluster, 'context' | 'engine'>

/** Resolves once the kernel lets in, or keeps out, whom the codes say. @throws ApiError 503 when etcd does not answer */
export async function followCodes({ context, engine }: Followed): Promise<void> {
  const { read, now } = context
  const stored = () => queries(read).self.get()?.newcomersUntil
  if (stored() === undefined || (await goodUntil(engine.records, now())) === stored()) return
  await context.mutate(system('cluster'), async (tx) => {
    // Asked again, because another change may have come in between.
    tx.update(self)
      .set({ newcomersUntil: await goodUntil(engine.records, now()) })
      .run()
    return { result: undefined, touch: [MEMBERS_REF], events: [] }
  })
}

/** A code is over at its time, also while nobody can be asked. */
async function closeInTime({ context }: Followed): Promise<void> {
  const { read, now } = context
  const until = queries(read).self.get()?.newcomersUntil ?? ''
  if (until === '' || Date.parse(until) > now().getTime()) return
  await context.mutate(system('cluster'), (tx) => {
    tx.update(self).set({ newcomersUntil: '' }).run()
    return { result: undefined, touch: [MEMBERS_REF], events: [] }
  })
}

export function startNewcomers(cluster: Followed): Stop {
  let looking: Promise<void> | undefined
  const look = () => {
    if (cluster.engine.standing() === undefined) return
    looking ??= followCodes(cluster)
      .catch(() => closeInTime(cluster))
      .catch((error: unknown) =>
        cluster.context.log.error({ err: error }, 'who may call at the door could not be changed'),
      )
      .finally(() => {
        looking = undefined
      })
  }
  const timer = setInterval(look, EVERY_MS).unref()
  look()
  return async () => {
    clearInterval(timer)
    await looking
  }
}
