/** Commands of DHCP: leases, reservations, and the early end of a lease. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Lease, Reservation } from './schemas.ts'

const NETWORK = { name: 'network', summary: 'id or name of the network' }
const RESERVATIONS = '/control/v1/dhcp/reservations'
const STATES = ['active', 'expired', 'revoked']

const time = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 19).concat('Z')
const pair = ({ mac, ip }: { mac: string; ip: string }) => `${ip} of ${mac}`

export const verbs: readonly Verb[] = [
  {
    path: 'dhcp leases',
    summary: 'list the leases, or those in one state',
    example: 'dhcp leases active',
    arguments: [{ name: 'state', summary: STATES.join(', '), optional: true }],
    async run({ call, argument, print }) {
      const state = argument('state')
      const answer = await call<{ leases: Lease[] }>('GET', `/api/v1/dhcp/leases${state && path`?state=${state}`}`)
      const rows = answer.leases.map((it) => [
        it.id,
        it.network_id,
        it.ip,
        it.mac,
        it.state,
        it.hostname,
        time(it.expires_at),
      ])
      const head = ['ID', 'NETWORK', 'IP', 'MAC', 'STATE', 'HOSTNAME', 'EXPIRES']
      print(answer, rows.length === 0 ? 'no leases' : columns([head, ...rows]))
    },
  },
  {
    path: 'dhcp release',
    summary: 'end a lease early; its client is refused when it renews, and may ask anew',
    example: 'dhcp release lab 10.0.0.5',
    arguments: [NETWORK, { name: 'ip', summary: 'address, or MAC of the client' }],
    async run({ call, argument, print }) {
      const body = { network: argument('network'), which: argument('ip') }
      const answer = await call<{ lease: Lease }>('POST', '/control/v1/dhcp/releases', body)
      print(answer, `lease ${pair(answer.lease)} ended`)
    },
  },
  {
    path: 'dhcp reserve',
    summary: 'bind an address to a MAC beforehand, which then gets it over DHCP',
    example: 'dhcp reserve lab 02:00:00:00:00:05 10.0.0.5',
    arguments: [
      NETWORK,
      { name: 'mac', summary: 'of the client' },
      { name: 'ip', summary: 'a free endpoint of the network' },
    ],
    async run({ call, argument, print }) {
      const body = { network: argument('network'), mac: argument('mac'), ip: argument('ip') }
      const answer = await call<{ reservation: Reservation }>('POST', RESERVATIONS, body)
      print(answer, `${answer.reservation.ip} is reserved for ${answer.reservation.mac}`)
    },
  },
  {
    path: 'dhcp unreserve',
    summary: 'end a reservation; its address is free again unless a machine has taken it',
    example: 'dhcp unreserve lab 02:00:00:00:00:05',
    arguments: [NETWORK, { name: 'mac', summary: 'of the client, or the address' }],
    async run({ call, argument, print }) {
      const query = path`?network=${argument('network')}`
      const target = path`/control/v1/dhcp/reservations/${argument('mac')}`
      const answer = await call<{ reservation: Reservation }>('DELETE', `${target}${query}`)
      print(answer, `reservation ${pair(answer.reservation)} ended`)
    },
  },
  {
    path: 'dhcp reservations',
    summary: 'list the reservations',
    example: 'dhcp reservations',
    async run({ call, print }) {
      const answer = await call<{ reservations: Reservation[] }>('GET', RESERVATIONS)
      const rows = answer.reservations.map((it) => [it.network_id, it.ip, it.mac, it.machine, it.created_at])
      const head = ['NETWORK', 'IP', 'MAC', 'MACHINE', 'SINCE']
      print(answer, rows.length === 0 ? 'no reservations' : columns([head, ...rows]))
    },
  },
]
