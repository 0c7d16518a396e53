/** Events of a running agent, as its store has them. */
import { join } from 'node:path'
import { Database } from '../../../core/state/sqlite.ts'
import type { RunningAgent } from '../../../test/agent.ts'

export interface Move {
  id: string
  from: string
  to: string
  last_state_change: string
}

/** Data of all events of a type so far, in their order. */
export function movesOf(agent: RunningAgent, type: string): Move[] {
  const db = new Database(join(agent.stateDir, 'stratum.db'), { readonly: true })
  try {
    const rows = db.prepare('select data from core_events where type = ? order by id').all(type) as { data: string }[]
    return rows.map(({ data }) => JSON.parse(data))
  } finally {
    db.close()
  }
}
