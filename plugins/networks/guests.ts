/**
 * What machines in private networks, and machines with routed addresses, may reach of the node itself. Judged where packets
 * for the node arrive, behind all address translation: port forwards, virtual addresses and what is routed never come here.
 * The classifier has no part in it, so one chain holds whoever judges by the rules, and also while the firewall is a disabled
 * area: where there are networks there is this chain. Pure.
 */
import type { Config } from '../../core/config.ts'
import type { Chain } from '../../dataplane/entry.ts'
import { maskText, parsePrefix } from '../../dataplane/nft/text.ts'
import { openings, STAMP_NET, WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { GUESTS } from './skeleton.ts'

const ALL = 'all'
const SERVICE = /^(tcp|udp)\/([1-9][0-9]{0,4})$/

/** Says what is wrong with a list of services, or nothing. */
export function whyNotServices(items: readonly string[]): string | undefined {
  const good = items.every((item) => item === ALL || Number(SERVICE.exec(item)?.[2] ?? 65_536) <= 65_535)
  return good ? undefined : 'must be all, or a list of tcp/PORT and udp/PORT'
}

/** The chain behind the rules of other areas at this hook, which may refuse connections to a virtual address. */
export function guestChain(config: Config): Chain {
  const services = config.list('guest_services')
  if (services.includes(ALL)) return chain([])
  const ports = [...new Set(['api_port', 'grpc_port', 'events_port'].map((key) => config.int(key)))].filter(
    (port) => port > 0,
  )
  const callers = ports.length === 0 ? [] : config.list('api_allowed_ips')
  // An area that is disabled may have left no sets, and nobody opens anything then.
  const areOpenings = !config.list('disabled_areas').includes('firewall')
  return chain([
    `iifname != "${WORK_BRIDGE}" return`,
    // An open port belongs to no network.
    `meta mark & ${maskText(STAMP_NET)} == 0 return`,
    'ct state established,related return',
    // A translation that leads to the node itself was made on purpose.
    'ct status dnat return',
    'udp dport 53 return',
    'tcp dport 53 return',
    'udp dport 67 return',
    'icmp type echo-request return',
    ...(areOpenings ? [`meta l4proto . th dport . ip saddr @${openings(4)} return`] : []),
    ...callers.map((text) => `${sourceText(text)} tcp dport { ${ports.join(', ')} } return`),
    ...services.flatMap((item) => {
      const [, protocol, port] = SERVICE.exec(item) ?? []
      return protocol === undefined ? [] : [`${protocol} dport ${port} return`]
    }),
    'drop',
  ])
}

const chain = (rules: readonly string[]): Chain => ({ kind: 'chain', key: `networks/${GUESTS}`, chain: GUESTS, rules })

/** Of text that was read when it was set, and is read once more so that only canonical text gets out. */
function sourceText(text: string): string {
  const prefix = parsePrefix(text)
  if (prefix === undefined) throw new TypeError('api_allowed_ips cannot be read any more')
  return `${prefix.family === 4 ? 'ip' : 'ip6'} saddr ${prefix.text}`
}
