/** Reads the counters every minute, folds days that are over, and removes what is old. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { fold, overdueDay, prune } from './fold.ts'
import { dayOf, slotOf } from './keys.ts'
import { takeReading } from './record.ts'

/** What is counted between the last reading and a loss of power is lost, so often and no oftener is written. */
const READ_MS = 60_000

export type Keeping = Pick<AreaContext, 'mutate' | 'plane' | 'read' | 'now' | 'log' | 'config'>

export async function startKeeping(context: Keeping): Promise<Stop> {
  const { plane, config, log } = context
  const follow = () => plane.traffic.keepFlows(config.flag('flow_tracking'))
  follow()
  const unfollow = config.onChange((key) => (key === 'flow_tracking' ? follow() : undefined))
  let running: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  const beat = (): void => {
    running = keep(context)
      .catch((error: unknown) => log.error({ err: error }, 'traffic could not be accounted; this is tried again'))
      .finally(schedule)
  }
  let stopped = false
  // On the minute: then what ends with a slot of five minutes is read with its end.
  function schedule(): void {
    if (!stopped) timer = setTimeout(beat, READ_MS - (Date.now() % READ_MS)).unref()
  }
  beat()
  return async () => {
    stopped = true
    unfollow()
    clearTimeout(timer)
    await running
    await read(context).catch((error: unknown) => log.error({ err: error }, 'the last traffic could not be accounted'))
  }
}

const read = ({ mutate, plane, now, log }: Keeping) =>
  mutate(system('accounting'), (tx) => takeReading(tx, plane, now(), log))

async function keep(context: Keeping): Promise<void> {
  const { mutate, plane, now } = context
  await read(context)
  let folded = false
  for (;;) {
    const day = overdueDay(context.read)
    if (day === undefined) break
    folded = true
    await mutate(system('accounting'), (tx) => fold(tx, day))
  }
  if (!folded) return
  const counted = new Set((await plane.traffic.usage()).map(({ mac }) => mac))
  await mutate(system('accounting'), (tx) => prune(tx, dayOf(slotOf(now().getTime())), counted))
}
