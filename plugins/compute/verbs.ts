/** Commands of the machine registry. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Nic } from '../networks/offers.ts'
import type { Machine } from './schemas.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'machine attach',
    summary: 'give a machine a NIC: an endpoint of a network, a public address, or both',
    example: 'machine attach web1 --network lab --public-ip auto --port tap7',
    arguments: [{ name: 'machine', summary: 'its name, which shows up as used_by' }],
    options: [
      { flags: '--network <network>', summary: 'id or name of a private network' },
      { flags: '--ip <address>', summary: 'endpoint of that network; default the next free one' },
      { flags: '--mac <mac>', summary: 'MAC of the NIC; default the one that follows from its address' },
      { flags: '--public-ip <address>', summary: 'a routed public address, or auto' },
      {
        flags: '--port <device>',
        summary: 'the only device that may send as it; default: as endpoint_ports says',
      },
    ],
    async run({ call, argument, options, print }) {
      const fields = Object.entries(options).map(([name, value]) => [name.replaceAll('-', '_'), value])
      const answer = await call<{ machine: Machine; nic: Nic }>('POST', '/control/v1/compute/machines', {
        machine: argument('machine'),
        ...Object.fromEntries(fields),
      })
      print(answer, `machine ${answer.machine.name}: ${nicText(answer.nic)}`)
    },
  },
  {
    path: 'machine port',
    summary: 'name the device that alone may send as a NIC of a machine; without a device, name none',
    example: 'machine port web1 tap9',
    arguments: [
      { name: 'machine', summary: 'its name' },
      { name: 'device', summary: 'a port of br-work, there or not', optional: true },
    ],
    options: [{ flags: '--mac <mac>', summary: 'which NIC, where the machine has several' }],
    async run({ call, argument, options, print }) {
      const target = path`/control/v1/compute/machines/${argument('machine')}/port`
      const answer = await call<{ machine: Machine; nic: Nic }>('PUT', target, { port: argument('device'), ...options })
      print(answer, `machine ${answer.machine.name}: ${nicText(answer.nic)}`)
    },
  },
  {
    path: 'machine detach',
    summary: 'take everything from a machine that it was given, and forget it',
    example: 'machine detach web1',
    arguments: [{ name: 'machine', summary: 'its name' }],
    async run({ call, argument, print }) {
      const answer = await call<{ machine: Machine }>(
        'DELETE',
        path`/control/v1/compute/machines/${argument('machine')}`,
      )
      print(answer, `machine ${answer.machine.name} detached`)
    },
  },
  {
    path: 'machine list',
    summary: 'list the machines and what they have',
    example: 'machine list',
    async run({ call, print }) {
      const answer = await call<{ machines: Machine[] }>('GET', '/control/v1/compute/machines')
      const rows = answer.machines.flatMap(({ name, networks }) =>
        networks.length === 0
          ? [[name, '', '', '', '', '']]
          : networks.map((nic) => [name, nic.network_id, nic.ip, nic.mac, nic.public_ip, nic.port]),
      )
      const head = ['MACHINE', 'NETWORK', 'IP', 'MAC', 'PUBLIC IP', 'PORT']
      print(answer, rows.length === 0 ? 'no machines' : columns([head, ...rows]))
    },
  },
]

/** `10.0.0.5 and 192.0.2.7 by 02:ce:0a:00:00:05 on tap7`. */
function nicText({ ip, public_ip, mac, port }: Nic): string {
  const addresses = [ip, public_ip].filter((address) => address !== undefined)
  return `${addresses.join(' and ')} by ${mac}${port === undefined ? '' : ` on ${port}`}`
}
