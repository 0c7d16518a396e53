/** Commands of overlays: the calls of REST, one by one. */
import { columns, path, type Verb, type VerbArgument } from '../../core/cli/verb.ts'
import type { Network, Peer } from './schemas.ts'

const VNI: VerbArgument = { name: 'vni', summary: 'number of the VXLAN network' }
const HOST: VerbArgument = { name: 'host', summary: 'label of the peer' }
const carries = ({ network_id, closed }: Pick<Network, 'network_id' | 'closed'>) =>
  closed === undefined ? (network_id ?? 'open ports') : `nothing: ${closed}`

export const verbs: readonly Verb[] = [
  {
    path: 'vxlan list',
    summary: 'list the VXLAN networks and what they carry',
    example: 'vxlan list',
    async run({ call, print }) {
      const answer = await call<{ vxlan_networks: Network[] }>('GET', '/api/v1/vxlan/networks')
      const rows = answer.vxlan_networks.map((it) => [it.vni, it.subnet, it.peers.length, carries(it)])
      print(answer, rows.length === 0 ? 'no VXLAN networks' : columns([['VNI', 'SUBNET', 'PEERS', 'CARRIES'], ...rows]))
    },
  },
  {
    path: 'vxlan add',
    summary: 'make a VXLAN network, as a port of br-work',
    example: 'vxlan add 100 --subnet 10.0.0.0/24',
    arguments: [VNI],
    options: [
      { flags: '--subnet <cidr>', summary: 'its range; the private network with the same range is carried' },
      { flags: '--network <name>', summary: 'id or name of the private network to carry' },
    ],
    async run({ call, argument, options, print }) {
      const body = { vni: Number(argument('vni')), ...options }
      const answer = await call<Network>('POST', '/api/v1/vxlan/networks', body)
      print(answer, `VXLAN network ${answer.vni} carries ${carries(answer)}`)
    },
  },
  {
    path: 'vxlan delete',
    summary: 'remove a VXLAN network and its peers',
    example: 'vxlan delete 100',
    arguments: [VNI],
    async run({ call, argument, print }) {
      const answer = await call<{ vni: number }>('DELETE', path`/api/v1/vxlan/networks/${argument('vni')}`)
      print(answer, `VXLAN network ${answer.vni} removed`)
    },
  },
  {
    path: 'vxlan peers list',
    summary: 'list the peers of a VXLAN network',
    example: 'vxlan peers list 100',
    arguments: [VNI],
    async run({ call, argument, print }) {
      const answer = await call<{ peers: Peer[] }>('GET', path`/api/v1/vxlan/networks/${argument('vni')}/peers`)
      const rows = answer.peers.map(({ host, vtep_ip, mac }) => [host, vtep_ip, mac])
      print(answer, rows.length === 0 ? 'no peers' : columns([['HOST', 'VTEP', 'MAC'], ...rows]))
    },
  },
  {
    path: 'vxlan peers add',
    summary: 'add a peer; without a MAC the addresses behind it are learned',
    example: 'vxlan peers add 100 node2 192.0.2.2',
    arguments: [VNI, HOST, { name: 'vtep-ip', summary: 'address of its VTEP' }],
    options: [{ flags: '--mac <mac>', summary: 'MAC behind it that frames go to at once' }],
    async run({ call, argument, options, print }) {
      const body = { host: argument('host'), vtep_ip: argument('vtep-ip'), ...options }
      const answer = await call<{ host: string }>('POST', path`/api/v1/vxlan/networks/${argument('vni')}/peers`, body)
      print(answer, `peer ${answer.host} added`)
    },
  },
  {
    path: 'vxlan peers delete',
    summary: 'remove a peer and what was learned behind it',
    example: 'vxlan peers delete 100 node2',
    arguments: [VNI, HOST],
    async run({ call, argument, print }) {
      const answer = await call<{ host: string }>(
        'DELETE',
        path`/api/v1/vxlan/networks/${argument('vni')}/peers/${argument('host')}`,
      )
      print(answer, `peer ${answer.host} removed`)
    },
  },
  {
    path: 'vxlan fdb',
    summary: 'list where frames go, as the kernel has it; 00:00:00:00:00:00 is frames to many',
    example: 'vxlan fdb',
    async run({ call, print }) {
      const answer = await call<{ fdb: { mac: string; vni: number; vtep_ip: string }[] }>('GET', '/api/v1/vxlan/fdb')
      const rows = answer.fdb.map(({ mac, vni, vtep_ip }) => [vni, mac, vtep_ip])
      print(answer, rows.length === 0 ? 'no forwarding entries' : columns([['VNI', 'MAC', 'VTEP'], ...rows]))
    },
  },
]
