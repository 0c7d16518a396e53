/** Commands of private networks and routed addresses: the calls of REST, one by one. */
import { columns, path, type Verb, type VerbArgument } from '../../core/cli/verb.ts'
import type { Endpoint, Network, Range, RoutedAddress } from './schemas.ts'

const NETWORK: VerbArgument = { name: 'network', summary: 'id of the network' }
const ENDPOINT: VerbArgument = { name: 'endpoint', summary: 'id of the endpoint' }
const SNAT = { flags: '--snat', summary: 'also let it out through the public address of this node' }
const DHCP = { flags: '--dhcp', summary: 'also serve it over DHCP' }

/** The name of an option is the field's, with dashes. */
const fields = (options: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(options).map(([name, value]) => [name.replaceAll('-', '_'), value]))

const ofNetworks: readonly Verb[] = [
  {
    path: 'networks list',
    summary: 'list the private networks',
    example: 'networks list',
    async run({ call, print }) {
      const answer = await call<{ networks: Network[] }>('GET', '/api/v1/networks')
      const rows = answer.networks.map((it) => [it.id, it.name, it.cidr, it.gateway, it.vlan, it.tenant_id, option(it)])
      const head = ['ID', 'NAME', 'CIDR', 'GATEWAY', 'VLAN', 'TENANT', 'HOST GATEWAY']
      print(answer, rows.length === 0 ? 'no networks' : columns([head, ...rows]))
    },
  },
  {
    path: 'networks show',
    summary: 'show one network',
    example: 'networks show net-3f9c2a71b0de',
    arguments: [NETWORK],
    async run({ call, argument, print }) {
      const answer = await call<{ network: Network }>('GET', path`/api/v1/networks/${argument('network')}`)
      const { host_gateway: _, ...rest } = answer.network
      print(answer, columns([...Object.entries(rest), ['host_gateway', option(answer.network)]]))
    },
  },
  {
    path: 'networks create',
    summary: 'add a private network',
    example: 'networks create lab 10.0.0.0/24 --gateway 10.0.0.1 --snat',
    arguments: [
      { name: 'name', summary: 'unique on this node' },
      { name: 'cidr', summary: 'IPv4, from /16 to /30' },
    ],
    options: [
      { flags: '--gateway <address>', summary: 'address that no endpoint gets' },
      {
        flags: '--vlan <id>',
        summary: 'tag that it leaves the node with; without one it does not leave',
        integer: true,
      },
      { flags: '--tenant-id <id>', summary: 'whose it is' },
      { flags: '--host-gateway', summary: 'let this node hold the gateway address' },
      SNAT,
      DHCP,
    ],
    async run({ call, argument, options, print }) {
      const body = { name: argument('name'), cidr: argument('cidr'), ...fields(options) }
      const answer = await call<{ network: Network; warnings?: string[] }>('POST', '/api/v1/networks', body)
      const { network, warnings = [] } = answer
      print(answer, [`network ${network.name} created: ${network.id}`, ...warnings].join('\n'))
    },
  },
  {
    path: 'networks delete',
    summary: 'delete a network of which no endpoint is bound',
    example: 'networks delete net-3f9c2a71b0de',
    arguments: [NETWORK],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/networks/${argument('network')}`)
      print(answer, `network ${answer.id} deleted`)
    },
  },
  {
    path: 'networks host-gateway',
    summary: 'let this node hold the gateway address of a network; what is not asked for is taken away',
    example: 'networks host-gateway net-3f9c2a71b0de --snat',
    arguments: [NETWORK],
    options: [SNAT, DHCP, { flags: '--off', summary: 'hold it no longer' }],
    async run({ call, argument, options, print }) {
      const target = path`/api/v1/networks/${argument('network')}/host-gateway`
      const { off, ...asked } = options
      const answer = await call<{ network: Network }>(off ? 'DELETE' : 'PUT', target, ...(off ? [] : [asked]))
      print(answer, `network ${answer.network.name}: host gateway ${option(answer.network)}`)
    },
  },
]

const ofEndpoints: readonly Verb[] = [
  {
    path: 'networks endpoints',
    summary: 'list the endpoints of a network',
    example: 'networks endpoints net-3f9c2a71b0de --mac 02:ce:0a:00:00:05',
    arguments: [NETWORK],
    options: [{ flags: '--mac <mac>', summary: 'only the one that has this MAC' }],
    async run({ call, argument, options, print }) {
      const list = path`/api/v1/networks/${argument('network')}/endpoints`
      const { mac } = options
      const query = mac === undefined ? '' : path`?mac=${String(mac)}`
      const answer = await call<{ endpoints: Endpoint[] }>('GET', `${list}${query}`)
      const rows = answer.endpoints.map((it) => [it.id, it.ip, it.mac, it.state, it.bound_at, it.port ?? it.kept_port])
      const head = ['ID', 'IP', 'MAC', 'STATE', 'SINCE', 'PORT']
      print(answer, rows.length === 0 ? 'no endpoints' : columns([head, ...rows]))
    },
  },
  {
    path: 'networks attach',
    summary: 'bind an endpoint',
    example: 'networks attach net-3f9c2a71b0de --ip 10.0.0.5',
    arguments: [NETWORK],
    options: [
      { flags: '--ip <address>', summary: 'default: the next free one' },
      { flags: '--mac <mac>', summary: 'default: the one that the endpoint has' },
      { flags: '--port <device>', summary: 'the only device that may send as it; default: as endpoint_ports says' },
    ],
    async run({ call, argument, options, print }) {
      const target = path`/api/v1/networks/${argument('network')}/attach`
      const answer = await call<{ endpoint: Endpoint }>('POST', target, options)
      print(answer, `${endpointText(answer.endpoint)}: ${answer.endpoint.id}`)
    },
  },
  {
    path: 'networks detach',
    summary: 'free an endpoint',
    example: 'networks detach net-3f9c2a71b0de ep-00010a000005',
    arguments: [NETWORK, ENDPOINT],
    async run({ call, argument, print }) {
      const target = path`/api/v1/networks/${argument('network')}/endpoints/${argument('endpoint')}/detach`
      const answer = await call<{ endpoint: Endpoint }>('POST', target)
      print(answer, endpointText(answer.endpoint))
    },
  },
  {
    path: 'networks mac',
    summary: 'change the MAC of an endpoint; a bound one moves to it in one step',
    example: 'networks mac net-3f9c2a71b0de ep-00010a000005 02:00:00:00:00:07',
    arguments: [NETWORK, ENDPOINT, { name: 'mac', summary: 'the new MAC' }],
    options: [{ flags: '--port <device>', summary: 'also name another device; empty: none' }],
    async run({ call, argument, options, print }) {
      const target = path`/api/v1/networks/${argument('network')}/endpoints/${argument('endpoint')}/mac`
      const answer = await call<{ endpoint: Endpoint }>('PUT', target, { mac: argument('mac'), ...options })
      print(answer, endpointText(answer.endpoint))
    },
  },
  {
    path: 'networks port',
    summary: 'name the device that alone may send as an endpoint; without a device, name none',
    example: 'networks port net-3f9c2a71b0de ep-00010a000005 tap7',
    arguments: [NETWORK, ENDPOINT, { name: 'device', summary: 'a port of br-work, there or not', optional: true }],
    async run({ call, argument, print }) {
      const target = path`/api/v1/networks/${argument('network')}/endpoints/${argument('endpoint')}/port`
      const answer = await call<{ endpoint: Endpoint }>('PUT', target, { port: argument('device') })
      print(answer, endpointText(answer.endpoint))
    },
  },
]

const ofRanges: readonly Verb[] = [
  {
    path: 'routed list',
    summary: 'list the routed ranges, and the addresses in use',
    example: 'routed list',
    async run({ call, print }) {
      const answer = await call<{ ranges: Range[]; addresses: RoutedAddress[] }>('GET', '/api/v1/routed-addresses')
      const ranges = answer.ranges.map((it) => [it.id, it.cidr, it.tenant_id, it.used, it.free, it.description])
      const used = answer.addresses.filter((it) => it.used_by !== '').map((it) => [it.ip, it.used_by, it.mac])
      const head = ['ID', 'RANGE', 'TENANT', 'USED', 'FREE', 'DESCRIPTION']
      const tables = [columns([head, ...ranges]), columns([['ADDRESS', 'USED BY', 'MAC'], ...used])]
      print(answer, ranges.length === 0 ? 'no routed ranges' : tables.slice(0, used.length === 0 ? 1 : 2).join('\n\n'))
    },
  },
  {
    path: 'routed add',
    summary: 'add a block of public addresses that is routed to this node',
    example: 'routed add 198.51.100.0/28 --tenant-id acme --description "rack 4"',
    arguments: [{ name: 'cidr', summary: 'a block, /20 or longer, or one address' }],
    options: [
      { flags: '--tenant-id <id>', summary: 'to whom it is reserved' },
      { flags: '--description <text>', summary: 'free text' },
    ],
    async run({ call, argument, options, print }) {
      const body = { cidr: argument('cidr'), ...fields(options) }
      const answer = await call<{ range: Range }>('POST', '/api/v1/routed-addresses', body)
      print(answer, `range ${answer.range.cidr} added: ${answer.range.id}`)
    },
  },
  {
    path: 'routed delete',
    summary: 'delete a routed range of which no machine uses an address',
    example: 'routed delete rng-3f9c2a71b0de',
    arguments: [{ name: 'range', summary: 'its id or its prefix' }],
    async run({ call, argument, print }) {
      const answer = await call<{ cidr: string }>('DELETE', path`/api/v1/routed-addresses/${argument('range')}`)
      print(answer, `range ${answer.cidr} deleted`)
    },
  },
]

export const verbs: readonly Verb[] = [...ofNetworks, ...ofEndpoints, ...ofRanges]

function option({ host_gateway: { enabled, snat, dhcp } }: Network): string {
  const parts = [enabled ? 'on' : 'off', ...(snat ? ['snat'] : []), ...(dhcp ? ['dhcp'] : [])]
  return parts.join(', ')
}

function endpointText({ ip, mac, state, port }: Endpoint): string {
  return `${ip} is ${state}${state === 'bound' ? ` to ${mac}` : ''}${port ? ` on ${port}` : ''}`
}
