/** NAT over a plane in memory. */
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import type { Forward, NatRule, Snat } from '../schemas.ts'

export const FORWARD = '/api/v1/forward'
export const SNAT = '/api/v1/gateway/snat'
/** The area and those it needs. */
const AREAS = ['node', 'nat', 'networks', 'ipam', 'l2']

export interface Nat extends BuiltAgent {
  /** Throws unless 201. */
  forward(dest_ip: string, dest_port: number, target_ip: string, target_port: number): Promise<Forward>
  /** Throws unless 201. */
  snat(source_cidr: string, device?: string): Promise<Snat>
  forwards(): Promise<Forward[]>
  rules(): Promise<NatRule[]>
  /** Elements of the area in the plane: `<set> <element> : <value>`. */
  elements(): string[]
  /** Types of the area's events so far. */
  events(): string[]
  /** Asserts by throwing that `work` changes neither a row nor the plane, and resolves with its answer. */
  unchanged<T>(work: () => Promise<T>): Promise<T>
}

/** The uplink is no device of the machine that the tests run on: its settings are not theirs to change. */
export async function nat(t: Scope, { config, ...options }: BuildAgentOptions = {}): Promise<Nat> {
  const limits = { uplink: 'away0', api_rate_limit: '10000000', api_rate_burst: '1000000' }
  const built = await buildArea(t, 'nat', { only: AREAS, ...options, config: { ...limits, ...config } })
  const { agent, call, plane } = built
  const certain = async (path: string, body: object) => {
    const answer = await call('POST', path, body)
    if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  return {
    ...built,
    forward: async (dest_ip, dest_port, target_ip, target_port) =>
      (await certain(FORWARD, { dest_ip, dest_port, target_ip, target_port })).port_forward as Forward,
    snat: async (source_cidr, device) =>
      (await certain(SNAT, { source_cidr, ...(device && { interface: device }) })).rule as Snat,
    forwards: async () => (await call('GET', FORWARD)).body.port_forwards as Forward[],
    rules: async () => (await call('GET', SNAT)).body.nat_rules as NatRule[],
    elements: () =>
      [...plane.entries.values()]
        .flatMap((it) => (it.kind === 'element' && it.key.startsWith('nat/') ? [it] : []))
        .map(({ set, element, value }) => `${set} ${element}${value === undefined ? '' : ` : ${value}`}`)
        .sort(),
    events: () => agent.outbox.after(0, 1000).flatMap(({ type }) => (/^(forward|snat)\./.test(type) ? [type] : [])),
    async unchanged(work) {
      const before = JSON.stringify(snapshot(built))
      const result = await work()
      if (JSON.stringify(snapshot(built)) !== before) throw new Error(`something changed, although ${String(work)}`)
      return result
    },
  }
}
