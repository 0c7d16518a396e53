/** The kernel, read by others' tools and compared with the model, for a sample of what the areas keep there. */
import type { Netns } from '../netns.ts'
import type { Model } from './model.ts'
import { GATEWAY_VIP } from './node.ts'

// biome-ignore lint/suspicious/noExplicitAny: what tools print is compared as it is
type Any = any

const OURS = { routes: '201', policies: '201' }

/** Whatever of the sample differs, in words. */
export function kernelDifferences(ns: Netns, model: Model): string[] {
  const json = (...args: string[]): Any[] => JSON.parse(ns.run('ip', '-j', ...args) || '[]')
  const out: string[] = []
  const same = (what: string, kernel: readonly string[], wanted: readonly string[]) => {
    const [is, shall] = [kernel, wanted].map((all) => [...all].sort())
    const missing = shall?.filter((one) => !is?.includes(one)) ?? []
    const more = is?.filter((one) => !shall?.includes(one)) ?? []
    if (missing.length + more.length > 0)
      out.push(`kernel, ${what}: missing ${missing.join(', ')}; more ${more.join(', ')}`)
  }
  const fields = (of: string): Any[] => [...model.of(of).values()].map((row) => row.fields)
  same(
    'routes',
    json('-4', 'route', 'show', 'table', 'all', 'proto', OURS.routes).map(
      ({ dst, table = 'main', metric }) => `${dst} ${table} ${metric}`,
    ),
    fields('routes').map(({ destination, table, metric }) => `${destination} ${table || 'main'} ${metric}`),
  )
  same(
    'policy rules',
    json('-4', 'rule', 'show')
      .filter((rule) => String(rule.protocol) === OURS.policies)
      .map(({ src, priority }) => `${src} ${priority}`),
    fields('policies').map(({ from, priority }) => `${from.replace('/32', '')} ${priority}`),
  )
  same(
    'overlays',
    json('-d', 'link', 'show', 'type', 'vxlan').map(({ ifname }) => ifname),
    [...model.of('overlays').values()].map(({ id }) => `vx${id}`),
  )
  const addresses = json('-4', 'address', 'show').flatMap(({ addr_info = [] }) =>
    addr_info.map(({ local }: Any) => local),
  )
  same(
    'floating addresses',
    addresses.filter((address) => /^198\.51\.100\.1[6-9]\d$/.test(address)),
    fields('floats').map(({ ip }) => ip),
  )
  same(
    'the address of the gateway',
    addresses.filter((address) => address === GATEWAY_VIP),
    model.where('gateway', { state: 'active' }).map(() => GATEWAY_VIP),
  )
  same(
    'bridges',
    json('link', 'show', 'type', 'bridge').map(({ ifname }) => ifname),
    ['br-work', 'br-mgmt', ...[...model.of('bridges').values()].map(({ id }) => String(id))],
  )
  const nft = ns.run('nft', 'list', 'map', 'inet', 'stratum', 'nat_forward4').replaceAll(/\s+/g, ' ')
  same(
    'forwards',
    Array.from(nft.matchAll(/([\d.]+) \. (\d+) : ([\d.]+) \. (\d+)/g), ([, ...all]) => all.join(' ')),
    fields('forwards').map((one) => `${one.dest_ip} ${one.dest_port} ${one.target_ip} ${one.target_port}`),
  )
  const sources = ns.run('nft', 'list', 'set', 'inet', 'stratum', 'nat_snat4').replaceAll(/\s+/g, ' ')
  same(
    'sources that are translated',
    Array.from(sources.matchAll(/"(\S+)" \. ([\d./]+)/g), ([, ...all]) => all.join(' ')),
    [...new Set(fields('snats').map((one) => `${one.interface || 'eth0'} ${one.source_ip}`))],
  )
  if (model.of('settings').get('own')?.fields.bridge_netfilter === 'off') {
    const hooks = ['iptables', 'ip6tables', 'arptables'].map((name) => `net.bridge.bridge-nf-call-${name}`)
    same('hooks for bridged frames', ns.run('sysctl', '-e', '-n', ...hooks).match(/1/g) ?? [], [])
  }
  return out
}
