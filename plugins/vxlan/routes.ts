/** REST of overlays. */
import type { TypedApp } from '../../core/area.ts'
import { PAGE, sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { deviceOf } from './desired.ts'
import { localOf } from './follow.ts'
import { queries } from './queries.ts'
import * as rules from './rules.ts'
import * as schema from './schemas.ts'

const AREA = 'vxlan'
/** With up to 1024 peers each, so many networks take some 10 ms. */
const NETWORKS_AT_ONCE = 8

/** Every path parameter is a string. */
const param = ({ params }: { params: unknown }, name: 'vni' | 'host'): string =>
  (params as Record<string, string | undefined>)[name] ?? ''

interface Listed {
  at: number
  mac: string
  vni: number
  vtep: string
}

export function routes(app: TypedApp): void {
  const { store, config, plane } = app.agent

  app.get(
    '/vxlan/networks',
    { schema: { summary: 'All VXLAN networks and their peers', response: { 200: schema.NetworkList } } },
    (_request, reply) =>
      sendList<schema.Network>(reply, store, {
        key: 'vxlan_networks',
        size: NETWORKS_AT_ONCE,
        page: (db, last) =>
          queries(db)
            .networkPage.all({ after: last?.vni ?? 0, limit: NETWORKS_AT_ONCE })
            .map((row) => rules.withPeers(db, row)),
        view: (network) => network,
      }),
  )
  app.post(
    '/vxlan/networks',
    {
      schema: {
        summary: 'Make a VXLAN network: its device, as a port of br-work',
        body: schema.NetworkInput,
        response: { 201: schema.NetworkCreated },
      },
    },
    async (request, reply) => {
      const max = config.int('max_vxlans')
      const created = await carryOut(request, reply, AREA, async (tx) =>
        rules.createNetwork(tx, request.body, await localOf(plane, config), max),
      )
      // It is guarded once the kernel has told of it, and carries nothing until then.
      await plane.ports.settled().catch((error: unknown) => request.log.error({ err: error }, 'guarded a moment later'))
      return reply.code(201).send(created)
    },
  )
  app.delete(
    '/vxlan/networks/:vni',
    {
      schema: { summary: 'Remove a VXLAN network, its peers and its device', response: { 200: schema.NetworkDeleted } },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => rules.deleteNetwork(tx, param(request, 'vni'))),
  )
  app.get(
    '/vxlan/networks/:vni/peers',
    { schema: { summary: 'The peers of a VXLAN network', response: { 200: schema.PeerList } } },
    (request) => {
      const { vni } = rules.findNetwork(store.read, param(request, 'vni'))
      return { vni, peers: queries(store.read).peersOf.all({ vni }).map(rules.toPeer) }
    },
  )
  app.post(
    '/vxlan/networks/:vni/peers',
    {
      schema: {
        summary: 'Send a VXLAN network to a VTEP, and accept it from there',
        body: schema.PeerInput,
        response: { 201: schema.PeerAdded },
      },
    },
    async (request, reply) => {
      const max = config.int('max_vxlan_peers')
      const vni = param(request, 'vni')
      const created = await carryOut(request, reply, AREA, (tx) => rules.createPeer(tx, vni, request.body, max))
      return reply.code(201).send(created)
    },
  )
  app.delete(
    '/vxlan/networks/:vni/peers/:host',
    {
      schema: { summary: 'Remove a peer and what was learned behind it', response: { 200: schema.PeerRemoved } },
    },
    (request, reply) =>
      carryOut(request, reply, AREA, (tx) => rules.deletePeer(tx, param(request, 'vni'), param(request, 'host'))),
  )
  app.get(
    '/vxlan/fdb',
    {
      config: { after: 'plane' },
      schema: { summary: 'Where frames go, as the kernel has it', response: { 200: schema.ForwardingList } },
    },
    async (_request, reply) => {
      const listed = await forwarding()
      return sendList<Listed>(reply, store, {
        key: 'fdb',
        page: (_db, last) => listed.slice(last === undefined ? 0 : last.at + 1, (last?.at ?? -1) + 1 + PAGE),
        view: ({ mac, vni, vtep }) => ({ mac, vni, vtep_ip: vtep }),
      })
    },
  )

  /** What is stored, and what was learned. */
  async function forwarding(): Promise<Listed[]> {
    const links = new Map((await plane.devices.links()).map(({ name, index }) => [name, index]))
    const all: Listed[] = []
    for (const { vni } of queries(store.read).allNetworks.all()) {
      const index = links.get(deviceOf(vni))
      if (index === undefined) continue
      for (const { mac, vtep } of await plane.devices.fdb(index)) all.push({ at: all.length, mac, vni, vtep })
    }
    return all
  }
}
