/** Commands of bridges and NICs. */
import { bitRate, columns, type Pane, path, type Verb } from '../../core/cli/verb.ts'
import { bondVerbs } from './bond-verbs.ts'
import type { Bridge, Nic, Port } from './schemas.ts'

const NAME = { name: 'bridge', summary: 'name of the bridge' }
const DEVICE = { name: 'interface', summary: 'name of the device' }
const FORCE = { flags: '--force', summary: 'also where this may cut the node off' }
const query = (options: Readonly<Record<string, unknown>>) => (options.force ? '?force=1' : '')

export const verbs: readonly Verb[] = [
  ...bondVerbs,
  {
    path: 'bridges list',
    summary: 'list the bridges with their ports',
    example: 'bridges list',
    async run({ call, print }) {
      const answer = await call<{ bridges: Bridge[] }>('GET', '/api/v1/bridges')
      const rows = answer.bridges.map(({ name, interfaces }) => [name, interfaces.join(' ')])
      print(answer, columns([['BRIDGE', 'PORTS'], ...rows]))
    },
  },
  {
    path: 'bridges add',
    summary: 'make a bridge',
    example: 'bridges add br-lab',
    arguments: [NAME],
    async run({ call, argument, print }) {
      const answer = await call<{ bridge: Bridge }>('POST', '/api/v1/bridges', { name: argument('bridge') })
      print(answer, `bridge ${answer.bridge.name} is there`)
    },
  },
  {
    path: 'bridges delete',
    summary: 'remove a bridge that has no ports',
    example: 'bridges delete br-lab',
    arguments: [NAME],
    async run({ call, argument, print }) {
      const answer = await call<{ name: string }>('DELETE', path`/api/v1/bridges/${argument('bridge')}`)
      print(answer, `bridge ${answer.name} is gone`)
    },
  },
  {
    path: 'bridges attach',
    summary: 'put a device into a bridge',
    example: 'bridges attach br-work tap0',
    arguments: [NAME, DEVICE],
    options: [FORCE],
    async run({ call, argument, options, print }) {
      const target = `${path`/api/v1/bridges/${argument('bridge')}/ports`}${query(options)}`
      const answer = await call<Port>('POST', target, { interface: argument('interface') })
      print(answer, `${answer.interface} is a port of ${answer.bridge}`)
    },
  },
  {
    path: 'bridges detach',
    summary: 'take a device out of a bridge',
    example: 'bridges detach br-work tap0',
    arguments: [NAME, DEVICE],
    options: [FORCE],
    async run({ call, argument, options, print }) {
      const target = path`/api/v1/bridges/${argument('bridge')}/ports/${argument('interface')}`
      const answer = await call<Port>('DELETE', `${target}${query(options)}`)
      print(answer, `${answer.interface} is no longer a port of ${answer.bridge}`)
    },
  },
  {
    path: 'nics list',
    summary: 'list the network cards',
    example: 'nics list',
    async run({ call, print }) {
      const answer = await call<{ nics: Nic[] }>('GET', '/api/v1/nics?refresh=1')
      const rows = answer.nics.map((nic) => [nic.stratum_name, nic.status, nic.speed_mbps, nic.driver, nic.pci])
      print(answer, columns([['NAME', 'STATUS', 'MBIT/S', 'DRIVER', 'PCI'], ...rows]))
    },
  },
]

interface Guarded {
  name: string
  role: string
  net: number
}

export const panes: readonly Pane[] = [
  {
    title: 'Ports',
    order: 20,
    async read({ call, rate, devices }) {
      const { ports } = await call<{ ports: Guarded[] }>('GET', '/control/v1/l2/ports')
      const measured = ports.map((port) => {
        const { received = 0, sent = 0 } = devices.get(port.name) ?? {}
        return { ...port, up: rate(`${port.name} up`, received), down: rate(`${port.name} down`, sent) }
      })
      measured.sort((a, b) => (b.up ?? 0) + (b.down ?? 0) - (a.up ?? 0) - (a.down ?? 0))
      return {
        head: ['PORT', 'ROLE', 'NETWORK', 'RECEIVES', 'SENDS'],
        rows: measured.map((it) => [
          it.name,
          it.role,
          it.net === 0 ? 'open' : it.net,
          bitRate(it.up),
          bitRate(it.down),
        ]),
        note: `${ports.length} of br-work`,
      }
    },
  },
]
