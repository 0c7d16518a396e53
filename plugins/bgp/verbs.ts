/** Commands of BGP. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Neighbor, Route } from './schemas.ts'

const ADDR = { name: 'addr', summary: 'address of the neighbor' }
const PREFIX = { name: 'prefix', summary: 'CIDR' }

export const verbs: readonly Verb[] = [
  {
    path: 'bgp status',
    summary: 'how BGP goes',
    example: 'bgp status',
    async run({ call, print }) {
      const answer = await call<Record<string, string | number>>('GET', '/api/v1/bgp/status')
      const { status, neighbors, routes, bfd_sessions_up } = answer
      print(answer, `${status}: ${neighbors} neighbors, ${routes} routes, ${bfd_sessions_up} BFD sessions up`)
    },
  },
  {
    path: 'bgp neighbors',
    summary: 'list the neighbors',
    example: 'bgp neighbors',
    async run({ call, print }) {
      const answer = await call<{ neighbors: Neighbor[] }>('GET', '/api/v1/bgp/neighbors')
      const rows = answer.neighbors.map((it) => [it.peer_addr, it.peer_as, it.local_as, it.state, it.bfd_status])
      const head = ['ADDRESS', 'AS', 'LOCAL AS', 'STATE', 'BFD']
      print(answer, rows.length === 0 ? 'no neighbors' : columns([head, ...rows]))
    },
  },
  {
    path: 'bgp add',
    summary: 'speak with a neighbor; its key, if any, is read from standard input',
    example: 'bgp add 192.0.2.2 65002 65001 --bfd',
    arguments: [
      ADDR,
      { name: 'peer-as', summary: 'AS of the neighbor' },
      { name: 'local-as', summary: 'AS that it knows this node by' },
    ],
    options: [
      { flags: '--hold-time <duration>', summary: 'default 90s', duration: true },
      { flags: '--bfd', summary: 'notice its loss by BFD' },
      { flags: '--md5', summary: 'protect the session by a key (TCP-MD5)' },
    ],
    async run({ call, argument, options, stdin, print }) {
      const answer = await call<{ neighbor: Neighbor }>('POST', '/api/v1/bgp/neighbors', {
        peer_addr: argument('addr'),
        peer_as: Number(argument('peer-as')),
        local_as: Number(argument('local-as')),
        ...(options['hold-time'] !== undefined && { hold_time: options['hold-time'] }),
        ...(options.bfd && { bfd_enabled: true }),
        ...(options.md5 && { md5_key: await stdin('key: ') }),
      })
      print(answer, `neighbor ${answer.neighbor.peer_addr} created`)
    },
  },
  {
    path: 'bgp delete',
    summary: 'speak with a neighbor no more',
    example: 'bgp delete 192.0.2.2',
    arguments: [ADDR],
    async run({ call, argument, print }) {
      const answer = await call<{ addr: string }>('DELETE', path`/api/v1/bgp/neighbors/${argument('addr')}`)
      print(answer, `neighbor ${answer.addr} deleted`)
    },
  },
  {
    path: 'bgp routes',
    summary: 'list the routes of a family',
    example: 'bgp routes ipv6',
    arguments: [{ name: 'family', summary: 'ipv4 or ipv6; default ipv4', optional: true }],
    async run({ call, argument, print }) {
      const family = argument('family') || 'ipv4'
      const answer = await call<{ routes: Route[] }>('GET', path`/api/v1/bgp/routes?family=${family}`)
      const rows = answer.routes.map((it) => [
        it.prefix,
        it.next_hop,
        it.as_path.join(' '),
        it.source,
        it.best ? 'best' : '',
      ])
      print(answer, rows.length === 0 ? 'no routes' : columns([['PREFIX', 'NEXT HOP', 'PATH', 'SOURCE', ''], ...rows]))
    },
  },
  {
    path: 'bgp announce',
    summary: 'tell all neighbors of a prefix',
    example: 'bgp announce 192.0.2.0/24 --communities 65001:1,no-export',
    arguments: [PREFIX],
    options: [
      { flags: '--next-hop <addr>', summary: 'default this node' },
      { flags: '--communities <list>', summary: 'separated by commas' },
    ],
    async run({ call, argument, options, print }) {
      const answer = await call<{ prefix: string }>('POST', '/api/v1/bgp/announce', {
        prefix: argument('prefix'),
        ...(options['next-hop'] !== undefined && { next_hop: options['next-hop'] }),
        ...(typeof options.communities === 'string' && { communities: options.communities.split(',') }),
      })
      print(answer, `${answer.prefix} announced`)
    },
  },
  {
    path: 'bgp withdraw',
    summary: 'tell neighbors of a prefix no more',
    example: 'bgp withdraw 192.0.2.0/24',
    arguments: [PREFIX],
    async run({ call, argument, print }) {
      const answer = await call<{ prefix: string }>('POST', '/api/v1/bgp/withdraw', { prefix: argument('prefix') })
      print(answer, `${answer.prefix} withdrawn`)
    },
  },
]
