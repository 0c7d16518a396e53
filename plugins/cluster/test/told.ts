import { join } from 'node:path'
import { Database } from '../../../core/state/sqlite.ts'
import type { ClusterNode } from '../../../test/cluster.ts'

interface Told {
  type: string
  actor: { kind: string; label: string }
  data: Record<string, unknown>
}

/** Events of a type that a node has told, oldest first: as they stand in its store. */
export async function eventsOf({ agent }: ClusterNode, type: string): Promise<Told[]> {
  const db = new Database(join(agent.stateDir, 'stratum.db'), { readonly: true })
  try {
    const rows = db.prepare('select type, actor, data from core_events where type = ? order by id').all(type)
    return (rows as { type: string; actor: string; data: string }[]).map((row) => ({
      type: row.type,
      actor: JSON.parse(row.actor),
      data: JSON.parse(row.data),
    }))
  } finally {
    db.close()
  }
}
