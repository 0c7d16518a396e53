/** Has calls wait for what they need of an agent that is still starting, before any gate judges them. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Credentials, isOfUnknownKind } from '../gates/bearer.ts'
import { isMutation } from '../gates/gate.ts'
import type { Need, Stages } from '../stages.ts'
import { passedOf } from './elsewhere.ts'

type Asked = Pick<FastifyRequest, 'method' | 'headers' | 'is404' | 'routeOptions' | 'raw'>

/**
 * What a call needs. Reads are answered from the store unless their route says otherwise (`after`). Changes, calls for another
 * member and keys that an area keeps are for areas that run.
 */
export function needOf({ method, headers, is404, routeOptions, raw }: Asked, known: Credentials): Need | undefined {
  if (is404) return undefined
  const isForAreas =
    isMutation(method) ||
    headers['x-node'] !== undefined ||
    (passedOf(raw) === undefined && isOfUnknownKind(known, headers.authorization))
  return isForAreas ? 'start' : routeOptions.config.after
}

export function waitForStart(app: FastifyInstance, stages: Stages, known: Credentials): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const need = stages.doing() === undefined ? undefined : needOf(request, known)
    const until = need && stages.until(need)
    if (until === undefined) return done()
    // Whoever has gone meanwhile may have asked again: nothing is done twice for him.
    const whyNot = () => (request.raw.socket.destroyed ? new Error('the caller has gone') : undefined)
    until.then(() => done(whyNot()), done)
  })
}
