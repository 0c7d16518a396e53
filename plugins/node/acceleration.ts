/** What `GET /status` says of the data plane (D32): which programs carry packets, and what is off and why. */
import type { Facility } from '../../dataplane/plane.ts'

export interface Acceleration {
  mode: 'xdp-native' | 'xdp-generic' | 'tc' | 'none'
  summary: string
  detail: string
}

export function acceleration(facilities: readonly Facility[]): Acceleration {
  const off = facilities.filter(({ available }) => !available)
  const on = facilities.filter(({ available }) => available)
  const has = (name: string) => on.some((facility) => facility.name === name)
  const ports = has('port') ? 'tc programs' : 'off'
  const firewall = has('nft') ? 'nft linear' : 'off'
  const summary = on.length === 0 ? 'no data plane' : `workload ports: ${ports}; firewall: ${firewall}`
  const detail = [...on, ...off].map(({ name, available, detail }) => `${name}: ${available ? '' : 'off, '}${detail}`)
  return { mode: has('port') ? 'tc' : 'none', summary, detail: detail.join('\n') }
}
