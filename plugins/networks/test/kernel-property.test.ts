/**
 * After any sequence of changes the kernel holds what the store does, and nothing once all is deleted.
 * BURSTS sets how many (short by default), SEED makes a run repeatable.
 */
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import { type Guest, type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { portDump } from './dump.ts'
import { held } from './held.ts'

requireRoot(t)

const BURSTS = Number(process.env.BURSTS ?? 15)
const CHANGES = 12
const P = '/api/v1'
const MACHINES = '/control/v1/compute/machines'

const CIDRS = ['10.0.0.0/24', '10.0.0.0/28', '10.0.0.128/25', '10.1.0.0/30', '10.2.0.0/16', '9.9.9.0/29']
const RANGES = ['8.8.4.0/30', '8.8.4.8', '9.9.9.4/30']
const MACS = ['02:00:00:00:00:01', '02:00:00:00:00:02', '02:ce:0a:00:00:02', '02:ce:0a:00:00:03']

interface Endpoint {
  id: string
  network_id: string
  ip: string
  state: string
}

/** Makes changes of every kind, whether or not they fit; tells which succeeded. */
class Changes {
  readonly done = new Set<string>()
  readonly #node: WorkloadNode
  readonly #ports: readonly Guest[]
  readonly #tenants: readonly string[]
  readonly #random: () => number
  #names = 0

  constructor(node: WorkloadNode, ports: readonly Guest[], tenants: readonly string[], random: () => number) {
    this.#node = node
    this.#ports = ports
    this.#tenants = tenants
    this.#random = random
  }

  async one(): Promise<void> {
    const [kind, make] = this.#pick(Object.entries(this.#kinds))
    const [method, path, body] = await make()
    const { status, text } = await this.#node.agent.call(method, path, body)
    if (status >= 500) throw new Error(`${kind}: ${status} ${text}`)
    if (status < 300) this.done.add(kind)
  }

  readonly #kinds = {
    create: async () => {
      const cidr = this.#pick(CIDRS)
      const gateway = this.#chance(0.5) && {
        gateway: cidr.replace(/\d+\/\d+$/, (end) => `${Number.parseInt(end, 10) + 1}`),
      }
      const option = this.#chance(0.5) && { host_gateway: true, snat: this.#chance(0.5) }
      const vlan = this.#chance(0.3) && { vlan: 10 + this.#below(3) }
      const tenant_id = this.#pick(['', ...this.#tenants])
      return ['POST', `${P}/networks`, { name: `n${this.#names++}`, cidr, tenant_id, ...gateway, ...option, ...vlan }]
    },
    remove: async () => ['DELETE', `${P}/networks/${await this.#network()}`],
    gateway: async () => ['PUT', `${P}/networks/${await this.#network()}/host-gateway`, { snat: this.#chance(0.5) }],
    ungateway: async () => ['DELETE', `${P}/networks/${await this.#network()}/host-gateway`],
    attach: async () => {
      const mac = this.#chance(0.3) && { mac: this.#pick(MACS) }
      return ['POST', `${P}/networks/${await this.#network()}/attach`, { ...mac }]
    },
    detach: async () => ['POST', `${await this.#bound()}/detach`],
    mac: async () => ['PUT', `${await this.#bound()}/mac`, { mac: this.#pick(MACS) }],
    range: async () => ['POST', `${P}/routed-addresses`, { cidr: this.#pick(RANGES) }],
    unrange: async () => ['DELETE', `${P}/routed-addresses?cidr=${this.#pick(RANGES)}`],
    machine: async () => {
      const network = this.#chance(0.6) && { network: await this.#network() }
      const public_ip = (!network || this.#chance(0.4)) && { public_ip: 'auto' }
      const port = this.#chance(0.5) && { port: this.#pick(this.#ports).port }
      return ['POST', MACHINES, { machine: `vm${this.#below(4)}`, ...network, ...public_ip, ...port }]
    },
    leave: async () => ['DELETE', `${MACHINES}/vm${this.#below(4)}`],
    macbind: async () => {
      const port = this.#chance(0.7) && { port_id: this.#pick([...this.#ports.map(({ port }) => port), 'nowhere']) }
      const vlan = this.#chance(0.3) && { vlan_id: 5 }
      return ['POST', `${P}/macbind`, { mac: this.#pick(MACS), mode: this.#pick(['hard', 'soft']), ...port, ...vlan }]
    },
    unmacbind: async () => ['DELETE', `${P}/macbind/${this.#pick(MACS)}`],
    vlan: async () => ['POST', `${P}/vlan`, { vlan_id: 9 + this.#below(4), allowed: this.#chance(0.3) }],
    unvlan: async () => ['DELETE', `${P}/vlan/${9 + this.#below(4)}`],
    plug: async () => {
      const guest = this.#pick(this.#ports)
      if (this.#chance(0.5)) guest.plug()
      else guest.unplug()
      return ['GET', `${P}/vlan`]
    },
  } satisfies Record<string, () => Promise<[method: string, path: string, body?: object]>>

  async #network(): Promise<string> {
    const { networks } = await this.#node.ok('GET', `${P}/networks`)
    return this.#pick([...(networks as { id: string }[]), { id: 'none' }]).id
  }

  async #bound(): Promise<string> {
    const network = await this.#network()
    if (network === 'none') return `${P}/networks/none/endpoints/none`
    const { endpoints } = await this.#node.ok('GET', `${P}/networks/${network}/endpoints`)
    const all = endpoints as Endpoint[]
    const bound = all.filter(({ state }) => state === 'bound')
    const { id } = this.#pick(bound.length > 0 && this.#chance(0.9) ? bound : all)
    return `${P}/networks/${network}/endpoints/${id}`
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end)
  }

  #pick<T>(list: readonly T[]): T {
    const found = list[this.#below(list.length)]
    if (found === undefined) throw new RangeError('nothing to pick from')
    return found
  }
}

async function deleteAll(node: WorkloadNode): Promise<void> {
  const list = async <T>(path: string, key: string) => (await node.ok('GET', path))[key] as T[]
  for (let n = 0; n < 4; n++) await node.agent.call('DELETE', `${MACHINES}/vm${n}`)
  for (const { id } of await list<{ id: string }>(`${P}/networks`, 'networks')) {
    const endpoints = await list<Endpoint>(`${P}/networks/${id}/endpoints`, 'endpoints')
    for (const it of endpoints.filter(({ state }) => state === 'bound')) {
      await node.ok('POST', `${P}/networks/${id}/endpoints/${it.id}/detach`)
    }
    await node.ok('DELETE', `${P}/networks/${id}`)
  }
  const { ranges } = (await node.ok('GET', `${P}/routed-addresses`)) as { ranges: { id: string }[] }
  for (const { id } of ranges) await node.ok('DELETE', `${P}/routed-addresses/${id}`)
  for (const { mac } of await list<{ mac: string }>(`${P}/macbind`, 'bindings')) {
    await node.ok('DELETE', `${P}/macbind/${mac}`)
  }
  for (const { vlan_id } of await list<{ vlan_id: number }>(`${P}/vlan`, 'vlans')) {
    await node.ok('DELETE', `${P}/vlan/${vlan_id}`)
  }
}

const timeout = 60_000 + BURSTS * 3000

t.test(
  'net-28 net-30 net-49 state-01 state-04 state-05 any sequence of changes: kernel and store agree',
  { timeout },
  async (t) => {
    t.comment(`BURSTS=${BURSTS} SEED=${SEED}`)
    const node = await workloadNode(t, { config: { uplink: 'lo' } })
    const ports = ['a', 'b', 'c'].map((name) => node.guest(name))
    await node.guarded(...ports)
    const [nothing, bare] = [portDump(node), held(node)]
    t.same(nothing, { settings: ['[2,1]'] }, 'nothing but that open ports are closed to the node')
    const tenants: string[] = []
    for (const name of ['a', 'b']) {
      tenants.push(((await node.ok('POST', `${P}/tenant`, { name })).tenant as { id: string }).id)
    }
    const changes = new Changes(node, ports, tenants, chance(SEED))
    let bad: unknown
    for (let burst = 0; burst < BURSTS && bad === undefined; burst++) {
      for (let n = 0; n < CHANGES; n++) await changes.one()
      const { status, found } = await node.ok('POST', '/control/v1/drift', { dry_run: true })
      if (status !== 'clean') bad = { burst, status, found }
    }
    t.same(bad, undefined, `${BURSTS} times nothing differs`)
    for (const kind of ['create', 'attach', 'detach', 'mac', 'machine', 'macbind', 'vlan']) {
      t.ok(changes.done.has(kind), `control: ${kind} succeeded at times`)
    }
    await deleteAll(node)
    t.same(portDump(node), nothing, 'no row is left')
    t.same(held(node), bare, 'no address, route, neighbour, nor element of a set')
    t.match(await node.ok('POST', '/control/v1/drift', { dry_run: true }), { status: 'clean' })
    for (const port of ports) port.plug()
    await node.open(...ports)
  },
)
