/** Tells how members of bonds fail and come back: looked at once a second while there are any, as the kernel has them. */
import type { AreaContext, EventDraft, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { allBonds, memberState, membersOf } from './bonds.ts'
import type { MemberState } from './schemas.ts'

const EVERY_MS = 1000

type Context = Pick<AreaContext, 'read' | 'plane' | 'mutate' | 'log'>

export interface MemberNow {
  id: string
  interface: string
  state: MemberState
}

/** All members of all bonds. Rejects as `plane.devices.bond` does. */
export async function membersNow({ read, plane }: Pick<Context, 'read' | 'plane'>): Promise<MemberNow[]> {
  const found = allBonds(read).map(async ({ id, name }) => {
    const members = membersOf(read, id)
    if (members.length === 0) return []
    const now = await plane.devices.bond(name, members)
    return members.map((member) => ({ id, interface: member, state: memberState(now?.members.get(member)) }))
  })
  return (await Promise.all(found)).flat()
}

/** Events of the members that stand otherwise than before; a member that is new has no before. */
export function moves(before: ReadonlyMap<string, MemberState>, now: readonly MemberNow[]): EventDraft[] {
  return now.flatMap(({ id, interface: name, state: to }) => {
    const from = before.get(`${id}/${name}`)
    if (from === undefined || from === to) return []
    const data = { id, interface: name, from, to }
    return [{ type: 'bond_member.state_changed', resource: `/api/v1/bonds/${id}`, data }]
  })
}

/** Ends with what it returns. */
export function tellMembers(context: Context): Stop {
  const { mutate, log } = context
  let before: ReadonlyMap<string, MemberState> = new Map()
  let looking: Promise<void> | undefined

  async function look(): Promise<void> {
    const now = await membersNow(context)
    const events = moves(before, now)
    if (events.length > 0) await mutate(system('kernel'), () => ({ result: undefined, touch: [], events }))
    before = new Map(now.map(({ id, interface: name, state }) => [`${id}/${name}`, state]))
  }

  const timer = setInterval(() => {
    looking ??= look()
      .catch((error: unknown) => log.error({ err: error }, 'how the members of bonds stand could not be told'))
      .finally(() => {
        looking = undefined
      })
  }, EVERY_MS).unref()
  return async () => {
    clearInterval(timer)
    await looking
  }
}
