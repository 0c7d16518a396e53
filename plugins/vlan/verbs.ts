/** Commands of VLAN lockdown. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Policy } from './schemas.ts'

const ID = { name: 'vlan', summary: 'VLAN id, 1 to 4094' }

export const verbs: readonly Verb[] = [
  {
    path: 'vlan list',
    summary: 'list the VLANs that have a policy; all others are allowed',
    example: 'vlan list',
    async run({ call, print }) {
      const answer = await call<{ vlans: Policy[] }>('GET', '/api/v1/vlan')
      const rows = answer.vlans.map(({ vlan_id, allowed }) => [vlan_id, allowed ? 'allowed' : 'locked down'])
      print(answer, rows.length === 0 ? 'every VLAN is allowed' : columns([['VLAN', 'POLICY'], ...rows]))
    },
  },
  {
    path: 'vlan lock',
    summary: 'drop the frames of a VLAN on every workload port and uplink',
    example: 'vlan lock 666',
    arguments: [ID],
    async run({ call, argument, print }) {
      const vlan = Number(argument('vlan'))
      print(await call('POST', '/api/v1/vlan', { vlan_id: vlan, allowed: false }), `VLAN ${vlan} is locked down`)
    },
  },
  {
    path: 'vlan clear',
    summary: 'return a VLAN to the default, which is allowed',
    example: 'vlan clear 666',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<{ vlan_id: number }>('DELETE', path`/api/v1/vlan/${argument('vlan')}`)
      print(answer, `VLAN ${answer.vlan_id} is allowed`)
    },
  },
]
