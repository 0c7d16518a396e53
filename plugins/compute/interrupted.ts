/** At the start of the agent: what was running when the last one ended is over. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { taskQueries } from './task-queries.ts'
import { failInterrupted } from './task-rules.ts'

/** Resolves before the first operation can begin. Where the change is refused, the next start finds the tasks again. */
export async function failInterruptedTasks({ config, log, mutate, now, read }: AreaContext): Promise<Stop> {
  if (taskQueries(read).running.all().length > 0) {
    const ending = { at: now().toISOString(), keep: config.int('max_tasks') }
    await mutate(system('agent'), (tx) => failInterrupted(tx, ending)).catch((error: unknown) => {
      log.warn(
        { err: error },
        'tasks of an agent that has ended are still shown as running; its next start tries again',
      )
    })
  }
  return () => {}
}
