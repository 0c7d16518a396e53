/** Commands of floating IPs: the calls of REST, one by one. */
import { columns, path, type Verb, type VerbArgument } from '../../core/cli/verb.ts'
import type { FloatingIp } from './schemas.ts'

const ID: VerbArgument = { name: 'id', summary: 'id of the floating IP' }

export const verbs: readonly Verb[] = [
  {
    path: 'float list',
    summary: 'list the floating IPs',
    example: 'float list',
    async run({ call, print }) {
      const answer = await call<{ floating_ips: FloatingIp[] }>('GET', '/api/v1/float')
      const rows = answer.floating_ips.map(({ id, ip, state, active_host, standby }) => [
        id,
        ip,
        state,
        active_host,
        standby,
      ])
      const head = ['ID', 'IP', 'STATE', 'HOST', 'STANDBY']
      print(answer, rows.length === 0 ? 'no floating IPs' : columns([head, ...rows]))
    },
  },
  {
    path: 'float add',
    summary: 'add a floating IP; it is on the uplink when the command ends, unless another node is its primary',
    example: 'float add 192.0.2.20 --standby node-b',
    arguments: [{ name: 'ip', summary: 'IPv4 or IPv6 address' }],
    options: [
      { flags: '--primary <node>', summary: 'node that has it; default this one' },
      { flags: '--standby <node>', summary: 'node that is to take over' },
    ],
    async run({ call, argument, options, print }) {
      const answer = await call<{ floating_ip: FloatingIp }>('POST', '/api/v1/float', {
        ip: argument('ip'),
        ...options,
      })
      const { id, ip, state, active_host } = answer.floating_ip
      print(answer, `floating IP ${id}: ${ip} is ${state === 'active' ? 'on this node' : `on ${active_host}`}`)
    },
  },
  {
    path: 'float show',
    summary: 'show one floating IP',
    example: 'float show fip-0a1b2c3d4e5f',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<FloatingIp>('GET', path`/api/v1/float/${argument('id')}`)
      print(answer, columns(Object.entries(answer)))
    },
  },
  {
    path: 'float delete',
    summary: 'delete a floating IP',
    example: 'float delete fip-0a1b2c3d4e5f',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/float/${argument('id')}`)
      print(answer, `floating IP ${answer.id} deleted`)
    },
  },
]
