/** What `GET /status` says of the data plane (D32): which programs carry packets, and what is off and why. */
import type { Facility } from '../../dataplane/plane.ts'

export interface Acceleration {
  mode: 'xdp-native' | 'xdp-generic' | 'tc' | 'none'
  summary: string
  detail: string
}

/** `starting`: what the agent does while it is not known what the node can do. */
export function acceleration(facilities: readonly Facility[], starting?: string): Acceleration {
  if (starting !== undefined && facilities.length === 0) return { mode: 'none', summary: starting, detail: '' }
  const off = facilities.filter(({ available }) => !available)
  const on = facilities.filter(({ available }) => available)
  const has = (name: string) => on.some((facility) => facility.name === name)
  const ports = has('port') ? 'tc programs' : 'off'
  const who = `load balancer: ${balancerOf(facilities)}; firewall: ${firewallOf(facilities)}`
  const summary = on.length === 0 ? 'no data plane' : `workload ports: ${ports}; ${who}`
  const detail = [...on, ...off].map(({ name, available, detail }) => `${name}: ${available ? '' : 'off, '}${detail}`)
  return { mode: has('port') ? 'tc' : 'none', summary, detail: detail.join('\n') }
}

/** Who judges by the rules of the firewall, and why it is not the classifier. */
function firewallOf(facilities: readonly Facility[]): string {
  const facility = (name: string) => facilities.find((it) => it.name === name)
  if (!facility('nft')?.available) return 'off'
  const classifier = facility('classifier')
  if (classifier?.available) return classifier.detail
  return `nft, rule by rule (${classifier?.detail ?? 'no classifier'})`
}

/** Who balances what comes to VIPs, and why it is not the programs. */
function balancerOf(facilities: readonly Facility[]): string {
  const facility = (name: string) => facilities.find((it) => it.name === name)
  const programs = facility('balancer')
  if (programs?.available) return programs.detail
  if (!facility('nft')?.available || !facility('netlink')?.available) return 'off'
  return `nft, by its connection tracking (${programs?.detail ?? 'no programs'})`
}
