/** Two tenants on one node, and a thief who knows the MAC of the owner's endpoint, which follows from its address. */
import type { Scope } from '../../../test/netns.ts'
import { type WorkloadNode, workloadNode } from '../../../test/workload.ts'
import { type PortedMachine, portedMachine } from './machines-on-ports.ts'

export const P = '/api/v1'
export const NEIGHBOUR = '10.0.0.2'
export const [HOME, ELSEWHERE, THIEF] = ['tapowner', 'tapother', 'tapthief'] as const

export interface Setting {
  name: string
  ports: 'roam' | 'sticky' | 'named'
  /** The port is named; the MAC is bound to it by a hard binding. */
  by?: 'port' | 'macbind'
}
export const SETTINGS: readonly Setting[] = [
  { name: 'roam', ports: 'roam' },
  { name: 'sticky', ports: 'sticky' },
  { name: 'named', ports: 'named' },
  { name: 'named port', ports: 'roam', by: 'port' },
  { name: 'hard binding', ports: 'roam', by: 'macbind' },
]

export interface Endpoint {
  id: string
  ip: string
  mac: string
  port?: string
  kept_port?: string
}

export interface Place {
  node: WorkloadNode
  owner: PortedMachine
  thief: PortedMachine
  /** Of the owner's network. */
  at: string
  /** Makes the thief for a time what it is by right. */
  honest(): Promise<void>
  set(ports: string): Promise<void>
  attach(setting: Setting, ip: string): Promise<Endpoint>
  shown(endpoint: Endpoint): Promise<Endpoint | undefined>
}

/** A node with the networks of two tenants, and a neighbour that answers in the owner's. */
export async function place(t: Scope): Promise<Place> {
  const node = await workloadNode(t)
  const network = async (name: string, cidr: string) => {
    const { tenant } = await node.ok('POST', `${P}/tenant`, { name })
    const tenant_id = (tenant as { id: string }).id
    const { network } = await node.ok('POST', `${P}/networks`, { name, cidr, tenant_id })
    return `${P}/networks/${(network as { id: string }).id}`
  }
  const [at, other] = [await network('owner', '10.0.0.0/24'), await network('thief', '10.1.0.0/24')]
  const bind = async (where: string, body: object) =>
    (await node.ok('POST', `${where}/attach`, body)).endpoint as Endpoint
  const [owner, thief, near] = [portedMachine(t, node, 'o'), portedMachine(t, node, 't'), portedMachine(t, node, 'n')]
  const neighbour = await bind(at, { ip: NEIGHBOUR, port: 'tapnear' })
  await near.on('tapnear', neighbour.mac, neighbour.ip)
  return {
    ...{ node, owner, thief, at },
    async honest() {
      const { id, mac, ip } = await bind(other, { port: THIEF })
      await thief.on(THIEF, mac, ip)
      thief.pings('10.1.0.254')
      thief.off()
      await node.ok('POST', `${other}/endpoints/${id}/detach`)
    },
    set: async (value) => void (await node.ok('PUT', '/control/v1/config/endpoint_ports', { value })),
    async attach({ by }, ip) {
      const endpoint = await bind(at, { ip, ...(by === 'port' && { port: HOME }) })
      if (by === 'macbind') await node.ok('POST', `${P}/macbind`, { mac: endpoint.mac, port_id: HOME })
      return endpoint
    },
    shown: async ({ mac }) =>
      ((await node.ok('GET', `${at}/endpoints?mac=${mac}`)).endpoints as Endpoint[]).find((it) => it.mac === mac),
  }
}

/** Waits until the endpoint keeps the device. */
export async function kept(here: Place, endpoint: Endpoint, port: string): Promise<void> {
  const signal = AbortSignal.timeout(20_000)
  while ((await here.shown(endpoint))?.kept_port !== port) {
    signal.throwIfAborted()
    await new Promise((wait) => setTimeout(wait, 10))
  }
}
