/** Commands of port forwards and source NAT. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Forward, NatRule, Snat } from './schemas.ts'

const ID = { name: 'id', summary: 'number of the rule' }
const ended = ({ id }: { id: number }) => `rule ${id} deleted`
/** An IPv6 address in brackets, so that its port can be told from it (RFC 3986 §3.2.2). */
const withPort = (ip: string, port: number) => (ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`)
const line = ({ id, dest_ip, dest_port, target_ip, target_port }: Forward) => [
  id,
  withPort(dest_ip, dest_port),
  withPort(target_ip, target_port),
]

export const verbs: readonly Verb[] = [
  {
    path: 'forward list',
    summary: 'list the port forwards',
    example: 'forward list',
    async run({ call, print }) {
      const answer = await call<{ port_forwards: Forward[] }>('GET', '/api/v1/forward')
      const rows = answer.port_forwards.map(line)
      print(answer, rows.length === 0 ? 'no port forwards' : columns([['ID', 'PUBLIC', 'TARGET'], ...rows]))
    },
  },
  {
    path: 'forward add',
    summary: 'forward a public address and port to a target, TCP and UDP',
    example: 'forward add 192.0.2.1 80 10.0.0.5 8080',
    arguments: [
      { name: 'dest-ip', summary: 'public address' },
      { name: 'dest-port', summary: 'public port' },
      { name: 'target-ip', summary: 'address of the workload' },
      { name: 'target-port', summary: 'port of the workload' },
    ],
    async run({ call, argument, print }) {
      const answer = await call<{ port_forward: Forward }>('POST', '/api/v1/forward', {
        dest_ip: argument('dest-ip'),
        dest_port: Number(argument('dest-port')),
        target_ip: argument('target-ip'),
        target_port: Number(argument('target-port')),
      })
      const [id, from, to] = line(answer.port_forward)
      print(answer, `rule ${id}: ${from} goes to ${to}`)
    },
  },
  {
    path: 'forward delete',
    summary: 'delete a port forward and end its connections',
    example: 'forward delete 3',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/forward/${argument('id')}`)
      print(answer, ended(answer))
    },
  },
  {
    path: 'snat list',
    summary: 'list the source NAT rules',
    example: 'snat list',
    async run({ call, print }) {
      const { nat_rules } = await call<{ nat_rules: NatRule[] }>('GET', '/api/v1/gateway/snat')
      const rules = nat_rules.filter(({ type }) => type === 'snat')
      const rows = rules.map(({ id, source_ip, interface: device, pending }) => [
        id,
        source_ip,
        pending === undefined ? device : `${device} (not in force: ${pending})`,
      ])
      print(
        { nat_rules: rules },
        rows.length === 0 ? 'no source NAT' : columns([['ID', 'SOURCE', 'LEAVES BY'], ...rows]),
      )
    },
  },
  {
    path: 'snat add',
    summary: 'let a block of addresses out under the address of the node',
    example: 'snat add 10.0.0.0/24 --interface eth0',
    arguments: [{ name: 'source', summary: 'CIDR' }],
    options: [{ flags: '--interface <name>', summary: 'device by which it leaves; default the uplink' }],
    async run({ call, argument, options, print }) {
      const body = { source_cidr: argument('source'), ...options }
      const answer = await call<{ rule: Snat }>('POST', '/api/v1/gateway/snat', body)
      const { id, source_ip, interface: device, pending } = answer.rule
      const waits = pending === undefined ? '' : `; not in force yet: ${pending}`
      print(answer, `rule ${id}: ${source_ip} leaves by ${device} under the address of the node${waits}`)
    },
  },
  {
    path: 'snat delete',
    summary: 'delete a source NAT rule',
    example: 'snat delete 4',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/gateway/snat/${argument('id')}`)
      print(answer, ended(answer))
    },
  },
]
