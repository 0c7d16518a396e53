/** Rows as REST shows them. */
import { blockText, ipText } from './ipv4.ts'
import type { Endpoint, Network, Range } from './schemas.ts'
import type { EndpointRow, NetworkRow, RangeRow } from './tables.ts'

export function toNetwork(row: NetworkRow): Network {
  return {
    id: row.id,
    name: row.name,
    cidr: blockText(row),
    ...(row.gateway > 0 && { gateway: ipText(row.gateway) }),
    ...(row.vlan > 0 && { vlan: row.vlan }),
    ...(row.tenantId && { tenant_id: row.tenantId }),
    created_at: row.createdAt,
    host_gateway: { enabled: row.hostGateway, snat: row.snat, dhcp: row.dhcp },
  }
}

export function toEndpoint(networkId: string, row: EndpointRow): Endpoint {
  return {
    id: endpointId(row.net, row.address),
    network_id: networkId,
    ip: ipText(row.address),
    mac: row.mac,
    ...(row.boundAt === '' ? { state: 'free' } : { state: 'bound', bound_at: row.boundAt }),
    ...(row.port && { port: row.port }),
    ...(row.keptPort && { kept_port: row.keptPort }),
  }
}

/** Follows from network and address, so that an endpoint needs no row to have an id. */
export const endpointId = (net: number, address: number): string =>
  `ep-${net.toString(16).padStart(4, '0')}${address.toString(16).padStart(8, '0')}`

/** Where an endpoint id points; undefined when it is none. */
export function placeOf(id: string): { net: number; address: number } | undefined {
  const [, net, address] = /^ep-([0-9a-f]{4})([0-9a-f]{8})$/.exec(id) ?? []
  if (net === undefined || address === undefined) return undefined
  return { net: Number.parseInt(net, 16), address: Number.parseInt(address, 16) }
}

export function toRange(row: RangeRow): Range {
  const size = row.last - row.first + 1
  return {
    id: row.id,
    cidr: blockText(row),
    tenant_id: row.tenantId,
    size,
    used: row.used,
    free: size - row.used,
    ...(row.description && { description: row.description }),
  }
}
