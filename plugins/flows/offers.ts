/** What flows offer to other areas: what tenants have carried. */
import type { TypedApp } from '../../core/area.ts'
import { type Carried, carriedOf } from './accounts.ts'
import { answered } from './answered.ts'
import { windowOf } from './window.ts'

export type { Carried } from './accounts.ts'

/** What the workloads of a tenant have carried together in the running month (UTC), until now. */
export function carriedThisMonth(app: Pick<TypedApp, 'agent' | 'log'>, tenant: string): Promise<Carried> {
  const window = windowOf({}, app.agent.now())
  return answered(app, (db) => carriedOf(db, tenant, window))
}
