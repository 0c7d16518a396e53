/** The state of the agent as a whole: what `GET /status` calls it, and how the event stream hears of its changes. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Agent } from './agent.ts'
import type { Amiss } from './health.ts'
import { remedyForTrouble } from './remedies.ts'
import { system } from './state/events.ts'

type State = 'starting' | 'running' | 'degraded' | 'stopping'

const TICK_MS = 1000
/** The event of a stop does not keep the agent longer than this: a change that is in flight may take its time. */
const FAREWELL_MS = 1000

type Asked = Pick<Agent, 'amiss' | 'ignored'>
type Standing = Asked & Pick<Agent, 'stages'>

/** Everything that is amiss, each with what to do about it. */
export const remedied = (agent: Asked): Required<Amiss>[] =>
  [...agent.amiss(), ...agent.ignored().map((what): Amiss => ({ source: 'setting', what }))].map((one) => ({
    ...one,
    remedy: remedyForTrouble(one),
  }))

/** The same, in sentences. */
export const amiss = (agent: Asked): string[] => remedied(agent).map(({ what }) => what)

export const stateOf = (agent: Standing): 'starting' | 'running' | 'degraded' => {
  if (agent.stages.doing() !== undefined) return 'starting'
  return amiss(agent).length > 0 ? 'degraded' : 'running'
}

/**
 * Tells as `agent.state_changed` that the agent has started and every later change, once a second at most, and looks
 * after what nothing else looks after: a store that failed, and a licence whose time comes.
 * Resolves when the first event is stored, or cannot be.
 * @returns tells that the agent stops; to be called while the stream still has its readers
 */
export async function followState(agent: Agent, { tickMs = TICK_MS } = {}): Promise<() => Promise<void>> {
  const { log } = agent.app
  let told: State = 'starting'
  let seen: State = 'starting'

  async function tell(to: State): Promise<void> {
    const data = { from: told, to, troubles: amiss(agent) }
    if (to !== seen) log[to === 'degraded' ? 'warn' : 'info'](data, 'the state of the agent changed')
    seen = to
    if (to === told) return
    try {
      await agent.announce(system('agent'), () => [{ type: 'agent.state_changed', resource: '/api/v1/status', data }])
      told = to
    } catch (error) {
      log.debug({ err: error }, 'the event of a changed state could not be stored; it is tried again')
    }
  }

  async function tick(): Promise<void> {
    if (agent.store.problem() !== undefined) await agent.pipeline.exclusively(async () => agent.store.probe())
    await agent.licenceNews.look()
    await tell(stateOf(agent))
  }

  let running = tick()
  await running
  let idle = true
  const clock = setInterval(() => {
    // Behind a long change there is no queue of ticks.
    if (!idle) return
    idle = false
    running = tick().finally(() => {
      idle = true
    })
  }, tickMs).unref()

  return async () => {
    clearInterval(clock)
    const told = running.then(() => tell('stopping'))
    await Promise.race([told, wait(FAREWELL_MS, undefined, { ref: false })])
    // Readers are woken in a turn of their own.
    await wait(1)
  }
}
