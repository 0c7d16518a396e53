/** `POST /control/v1/drift`: compares the kernel with the store at once, and repairs what others changed. */
import { Type } from 'typebox'
import { KernelRefusal, UncertainOutcome } from '../../dataplane/plane.ts'
import type { Agent } from '../agent.ts'
import type { TypedApp } from '../area.ts'
import { conflict } from '../errors.ts'
import { RepairRefused } from '../state/reconcile.ts'

const Body = Type.Object({ dry_run: Type.Optional(Type.Boolean()) }, { additionalProperties: false })

export function driftRoute(app: TypedApp, { drift }: Agent): void {
  app.post('/drift', { schema: { body: Body } }, async (request) => {
    try {
      const { result, ...rest } = await drift.check({ dryRun: request.body.dry_run === true })
      return { status: result === 'deferred' ? ('differs' as const) : result, ...rest }
    } catch (error) {
      throw asAnswer(error)
    }
  })
}

/** Over the socket the operator is told what the kernel says. */
function asAnswer(error: unknown): unknown {
  if (error instanceof RepairRefused) {
    return conflict('KERNEL_REFUSED', `not everything could be repaired, it is tried again: ${error.message}`)
  }
  const plane = error instanceof KernelRefusal || error instanceof UncertainOutcome
  return plane
    ? conflict('KERNEL_UNKNOWN', `the kernel could not be compared, it is tried again: ${error.message}`)
    : error
}
