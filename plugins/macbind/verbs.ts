/** Commands of MAC bindings. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Binding } from './schemas.ts'

const MAC = { name: 'mac', summary: 'MAC address' }

export const verbs: readonly Verb[] = [
  {
    path: 'macbind list',
    summary: 'list the MAC bindings',
    example: 'macbind list',
    async run({ call, print }) {
      const answer = await call<{ bindings: Binding[] }>('GET', '/api/v1/macbind')
      const rows = answer.bindings.map(({ id, mac, port_id, vlan_id, mode }) => [
        id,
        mac,
        port_id || 'every port',
        vlan_id || 'any',
        mode,
      ])
      print(answer, rows.length === 0 ? 'no bindings' : columns([['ID', 'MAC', 'PORT', 'VLAN', 'MODE'], ...rows]))
    },
  },
  {
    path: 'macbind add',
    summary: 'admit a MAC to a port, and from then on bound MACs only',
    example: 'macbind add 02:00:00:00:00:01 --port-id tap0 --mode soft',
    arguments: [MAC],
    options: [
      { flags: '--port-id <name>', summary: 'the port; default every workload port' },
      { flags: '--vlan-id <id>', summary: 'only with this tag; default any', integer: true },
      { flags: '--mode <mode>', summary: 'hard drops the frames of others (default), soft tells of them' },
    ],
    async run({ call, argument, options, print }) {
      const body = { mac: argument('mac') }
      const given = Object.entries(options).map(([name, value]) => [name.replaceAll('-', '_'), value])
      const answer = await call<{ binding: Binding }>('POST', '/api/v1/macbind', {
        ...body,
        ...Object.fromEntries(given),
      })
      const { mac, port_id, mode } = answer.binding
      print(answer, `${mac} is bound to ${port_id || 'every workload port'}, ${mode}`)
    },
  },
  {
    path: 'macbind delete',
    summary: 'remove the binding of a MAC',
    example: 'macbind delete 02:00:00:00:00:01',
    arguments: [MAC],
    async run({ call, argument, print }) {
      const answer = await call<{ mac: string }>('DELETE', path`/api/v1/macbind/${argument('mac')}`)
      print(answer, `${answer.mac} is no longer bound`)
    },
  },
]
