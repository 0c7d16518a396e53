/** Commands of bonds. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Bond, Membership } from './schemas.ts'

const BOND = { name: 'bond', summary: 'id of the bond' }
const DEVICE = { name: 'interface', summary: 'name of the device' }
const FORCE = { flags: '--force', summary: 'also where this may cut the node off' }
const query = (options: Readonly<Record<string, unknown>>) => (options.force ? '?force=1' : '')

const members = ({ members }: Bond) => members.map((it) => `${it.interface}:${it.state}`).join(' ')

export const bondVerbs: readonly Verb[] = [
  {
    path: 'bonds list',
    summary: 'list the bonds with their members and how these stand',
    example: 'bonds list',
    async run({ call, print }) {
      const answer = await call<{ bonds: Bond[] }>('GET', '/api/v1/bonds')
      const rows = answer.bonds.map((bond) => [bond.id, bond.name, bond.mode, bond.mtu, members(bond)])
      print(answer, columns([['ID', 'NAME', 'MODE', 'MTU', 'MEMBERS'], ...rows]))
    },
  },
  {
    path: 'bonds show',
    summary: 'show a bond and how its members stand',
    example: 'bonds show lan',
    arguments: [BOND],
    async run({ call, argument, print }) {
      const answer = await call<{ bond: Bond }>('GET', path`/api/v1/bonds/${argument('bond')}`)
      const { bond } = answer
      const rows = bond.members.map((it) => [it.interface, it.state])
      const head = `${bond.name} (${bond.id}): ${bond.mode}, mtu ${bond.mtu}, active ${bond.active_slave || '-'}`
      print(answer, rows.length > 0 ? `${head}\n${columns([['MEMBER', 'STATE'], ...rows])}` : head)
    },
  },
  {
    path: 'bonds add',
    summary: 'make a bond',
    example: 'bonds add bond0 802.3ad --id lan --mtu 9000',
    arguments: [
      { name: 'name', summary: 'name of its network device' },
      { name: 'mode', summary: 'active-backup or 802.3ad' },
    ],
    options: [
      { flags: '--id <id>', summary: 'id of the bond; without one it gets one' },
      { flags: '--mtu <bytes>', summary: 'MTU of the bond and of its members', integer: true },
    ],
    async run({ call, argument, options: { id, mtu }, print }) {
      const body = { ...(id && { id }), name: argument('name'), mode: argument('mode'), ...(mtu && { mtu }) }
      const answer = await call<{ bond: Bond }>('POST', '/api/v1/bonds', body)
      print(answer, `bond ${answer.bond.name} is there, its id is ${answer.bond.id}`)
    },
  },
  {
    path: 'bonds delete',
    summary: 'remove a bond and release its members',
    example: 'bonds delete lan',
    arguments: [BOND],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/bonds/${argument('bond')}`)
      print(answer, `bond ${answer.id} is gone`)
    },
  },
  {
    path: 'bonds attach',
    summary: 'put a device into a bond',
    example: 'bonds attach lan eth1',
    arguments: [BOND, DEVICE],
    options: [FORCE],
    async run({ call, argument, options, print }) {
      const target = `${path`/api/v1/bonds/${argument('bond')}/members`}${query(options)}`
      const answer = await call<Membership>('POST', target, { interface: argument('interface') })
      print(answer, `${answer.interface} is a member of ${answer.id}`)
    },
  },
  {
    path: 'bonds detach',
    summary: 'take a device out of a bond',
    example: 'bonds detach lan eth1',
    arguments: [BOND, DEVICE],
    options: [FORCE],
    async run({ call, argument, options, print }) {
      const target = path`/api/v1/bonds/${argument('bond')}/members/${argument('interface')}`
      const answer = await call<Membership>('DELETE', `${target}${query(options)}`)
      print(answer, `${answer.interface} is no longer a member of ${answer.id}`)
    },
  },
  {
    path: 'bonds mtu',
    summary: 'set the MTU of a bond and of its members',
    example: 'bonds mtu lan 9000',
    arguments: [BOND, { name: 'mtu', summary: '576 to 9216' }],
    async run({ call, argument, print }) {
      const target = path`/api/v1/bonds/${argument('bond')}/mtu`
      const answer = await call<{ id: string; mtu: number }>('PUT', target, { mtu: Number(argument('mtu')) })
      print(answer, `the MTU of ${answer.id} is ${answer.mtu}`)
    },
  },
]
