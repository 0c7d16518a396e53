/** Has calls wait for what they need of an agent that is still starting, before the gates judge them. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { tryAgain } from '../errors.ts'
import { clientOf } from '../gates/client.ts'
import { isMutation } from '../gates/gate.ts'
import type { Foreseen, Gates } from '../gates/index.ts'
import type { Need, Stages } from '../stages.ts'

type Asked = Pick<FastifyRequest, 'method' | 'headers' | 'is404' | 'routeOptions'>

/**
 * What a call needs. Reads are answered from the store unless their route says otherwise (`after`). Changes, calls for another
 * member and keys that an area keeps are for areas that run, unless the route of a change says that it needs neither (`atOnce`). Who is refused in any case needs nothing.
 */
export function needOf({ method, headers, is404, routeOptions }: Asked, who: Foreseen): Need | undefined {
  if (is404 || who === 'refused') return undefined
  if (routeOptions.config.atOnce === true && headers['x-node'] === undefined) return undefined
  if (isMutation(method) || headers['x-node'] !== undefined || who === 'unclear') return 'start'
  return routeOptions.config.after
}

/**
 * So many calls wait at once. One connection can carry any number of them (RFC 9112 §9.3.2), and who bears a key of an area that
 * has not started may be anybody: the bounds of the connections do not bound that.
 */
export const MOST_WAITING = { ofOperator: 256, ofStranger: 16, ofStrangers: 512 } as const

export function waitForStart(app: FastifyInstance, stages: Stages, foresee: Gates['foresee']): void {
  const room = openRoom()
  app.addHook('onRequest', (request, _reply, done) => {
    if (stages.doing() === undefined) return done()
    const who = foresee(request)
    const need = needOf(request, who)
    if (need === undefined || stages.isMet(need)) return done()
    const leave = room.enter(clientOf(request.raw.socket).key, who === 'known')
    if (leave === undefined) return done(tryAgain('the agent is starting, and too many calls wait for it'))
    // Nothing is done for who has gone: he may have asked again. A request that waits is not read to its end.
    const gone = new AbortController()
    request.raw.once('close', () => gone.abort())
    const until = stages.until(need, gone.signal) ?? Promise.resolve()
    until.finally(leave).then(() => done(), done)
  })
}

/** Who waits, by source. */
function openRoom() {
  const of = { operators: new Map<string, number>(), strangers: new Map<string, number>() }
  let strangers = 0

  return {
    /** Returns how to leave; undefined: there is no room. */
    enter(key: string, isOperator: boolean): (() => void) | undefined {
      const counts = isOperator ? of.operators : of.strangers
      const own = counts.get(key) ?? 0
      if (own >= (isOperator ? MOST_WAITING.ofOperator : MOST_WAITING.ofStranger)) return undefined
      if (!isOperator && strangers >= MOST_WAITING.ofStrangers) return undefined
      counts.set(key, own + 1)
      if (!isOperator) strangers++
      return () => {
        if (!isOperator) strangers--
        const left = (counts.get(key) ?? 1) - 1
        if (left > 0) counts.set(key, left)
        else counts.delete(key)
      }
    },
  }
}
