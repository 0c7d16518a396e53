/** The load balancer over a plane in memory. Time passes by hand, and checks ask whom the test says. */
import { type AreaPlugin, defineArea } from '../../../core/area.ts'
import type { VipBackend, VipEntry } from '../../../dataplane/bpf/lb/entries.ts'
import { type BuildAgentOptions, type BuiltAgent, buildAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { type Checker, type CheckerParts, openChecker } from '../checks/checker.ts'
import type { Probe } from '../checks/probe.ts'
import { type Drainer, startDraining } from '../drain.ts'
import { startEviction } from '../evict.ts'
import lb from '../index.ts'
import { startRemembering } from '../place.ts'
import type { LoadBalancer } from '../schemas.ts'
import { type ManualTimers, manualTimers } from './timers.ts'

export const LB = '/api/v1/lb'
const INDEX = new URL('../index.js', import.meta.url).href

export interface LbOptions extends BuildAgentOptions {
  /** Whom checks ask; by default nobody ever answers. */
  probe?: Probe
  atOnce?: number
  timers?: ManualTimers
}

export interface LbArea extends BuiltAgent {
  timers: ManualTimers
  checker(): Checker
  /** Moves on by `ms`, and resolves when all that became due by that has ended. */
  pass(ms: number): Promise<void>
  /** The VIP as a GET answers it. */
  vip(id: string): Promise<LoadBalancer>
  /** Makes a VIP, of `web` at 192.0.2.10 unless told otherwise; throws where it is refused. */
  add(fields?: object): Promise<LoadBalancer>
  /** Adds a backend `b<n>` at 10.0.0.<n>; throws where it is refused. */
  join(vip: string, n: number, fields?: object): Promise<void>
  /** What the plane knows of the backends of a VIP: `b1 up`, in order. */
  served(vip: string): string[]
  entry(vip: string): VipEntry | undefined
  /** Keys of what the plane holds, sorted. */
  held(): string[]
  /** Events so far as `type id`, without those of the node itself. */
  events(): string[]
  set(values: Record<string, string>): Promise<void>
  /** Asserts by throwing that `work` changes neither a row nor the plane, and resolves with its answer. */
  unchanged<T>(work: () => Promise<T>): Promise<T>
}

export const nobody: Probe = (_target, signal) =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve('no answer in time'), { once: true }))

export async function lbArea(t: Scope, options: LbOptions = {}): Promise<LbArea> {
  const { probe = nobody, timers = manualTimers(), atOnce, ...rest } = options
  const limits = { api_rate_limit: '10000000', api_rate_burst: '1000000', uplink: 'eth0' }
  const started: { checker?: Checker; drainer?: Drainer } = {}
  const since = Date.now()
  const built = await buildAgent(t, {
    now: () => new Date(since + timers.now()),
    ...rest,
    only: ['node', 'gateway', 'float'],
    extraAreas: [withTime(started, { timers, probe, ...(atOnce !== undefined && { atOnce }) })],
    config: { ...limits, ...options.config },
  })
  const { agent, plane, call } = built
  const { latest } = agent.outbox.bounds()
  const entry = (id: string) => plane.entries.get(`lb/vip/${id}`) as VipEntry | undefined
  const certain = async (...what: Parameters<typeof call>) => {
    const answer = await call(...what)
    if (answer.status >= 300) throw new Error(`${what.join(' ')}: ${answer.text}`)
    return answer.body
  }
  return {
    ...built,
    timers,
    checker: () => started.checker as Checker,
    async pass(ms) {
      timers.advance(ms)
      await started.checker?.idle()
      await started.drainer?.idle()
    },
    vip: async (id) => (await certain('GET', `${LB}/${id}`)).load_balancer as LoadBalancer,
    add: async (fields = {}) => {
      const body = { id: 'web', frontend_ip: '192.0.2.10', frontend_port: 80, algorithm: 'round-robin', ...fields }
      return (await certain('POST', LB, body)).load_balancer as LoadBalancer
    },
    async join(vip, n, fields = {}) {
      await certain('POST', `${LB}/${vip}/backends`, { id: `b${n}`, ip: `10.0.0.${n}`, ...fields })
    },
    served: (id) => (entry(id)?.backends ?? []).map((one: VipBackend) => `${one.id} ${one.state}`),
    entry,
    held: () => [...plane.entries.keys()].sort(),
    events: () =>
      agent.outbox.after(latest, 10_000).map(({ type, data }) => {
        const { id, backend_id, to } = data as Record<string, string | undefined>
        return [type, backend_id ?? id, to].filter((word) => word !== undefined).join(' ')
      }),
    async set(values) {
      agent.overrides.change((content) => void Object.assign(content.config, values))
      await agent.config.reload()
      await agent.pipeline.exclusively(async () => {})
    },
    async unchanged(work) {
      const before = JSON.stringify(snapshot(built))
      const result = await work()
      if (JSON.stringify(snapshot(built)) !== before) throw new Error(`something changed, although ${String(work)}`)
      return result
    },
  }
}

/** The area as it is, but for time. */
function withTime(
  started: { checker?: Checker; drainer?: Drainer },
  parts: Required<Pick<CheckerParts, 'timers' | 'probe'>> & Pick<CheckerParts, 'atOnce'>,
): AreaPlugin {
  return defineArea(INDEX, {
    ...lb.area,
    async start(context) {
      const forget = await startRemembering(context)
      const checker = openChecker({ ...context, ...parts })
      const drainer = startDraining({ ...context, timers: parts.timers })
      const stopEviction = startEviction(context)
      Object.assign(started, { checker, drainer })
      return async () => {
        await Promise.all([forget(), checker.stop(), drainer.stop(), stopEviction()])
      }
    },
  })
}
