/**
 * What the responder (DNS, DHCP) shall answer, as keyed entries. Rendered by areas, carried out by `driver.ts`, held by the
 * process in `responder/`. Names are absolute and in lower case (`www.example.org.`), addresses and MACs canonical text.
 */

export type ResponderEntry = DnsListener | DnsZone | DnsRecord | DhcpNetwork | DhcpBinding | DhcpRefusal
export type DnsEntry = DnsListener | DnsZone | DnsRecord
export type DhcpEntry = DhcpNetwork | DhcpBinding | DhcpRefusal

export const DNS_KINDS = ['dns_listener', 'dns_zone', 'dns_record'] as const
export const DHCP_KINDS = ['dhcp_network', 'dhcp_binding', 'dhcp_refusal'] as const
export const RESPONDER_KINDS = [...DNS_KINDS, ...DHCP_KINDS] as const

/** Answers DNS on one address, over UDP and TCP. It need not be on the node yet. */
export interface DnsListener {
  kind: 'dns_listener'
  key: string
  address: string
  port: number
}

export interface DnsZone {
  kind: 'dns_zone'
  key: string
  name: string
  /** The 7 fields of RFC 1035 §3.3.13 as a zone file has them. */
  soa: string
  soaTtl: number
  /** PKCS8 DER of the P-256 key, base64; the zone is signed if there is one. */
  csk?: string
}

/** One record; what has equal name and type is one set (RFC 2181 §5). */
export interface DnsRecord {
  kind: 'dns_record'
  key: string
  zone: string
  name: string
  type: 'A' | 'AAAA' | 'PTR' | 'CNAME' | 'MX' | 'TXT' | 'NS' | 'SRV'
  ttl: number
  /** As the API shows it. */
  value: string
  /** CIDR of those who are told of it; '' is everybody whom no narrower record is for. */
  subnet: string
}

/** A network that is served over DHCP, by the address of its gateway. */
export interface DhcpNetwork {
  kind: 'dhcp_network'
  key: string
  /** Its number in the data plane. */
  net: number
  /** The device that its gateway is on, whose frames are stamped with the number. */
  link: string
  cidr: string
  gateway: string
  leaseSeconds: number
  /** 0: clients are not told of one. */
  mtu: number
  dns: readonly string[]
  /** '' is none. */
  domain: string
}

/** The address that one MAC gets in a network. */
export interface DhcpBinding {
  kind: 'dhcp_binding'
  key: string
  net: number
  address: string
  mac: string
  /** '' is none. */
  hostname: string
  /** Leases of before this moment (Unix ms) were ended early: renewing one is refused, so that the client asks anew. */
  endedAt?: number
}

/** A MAC that is bound no more: its client is refused when it renews, as long as its lease would last. */
export interface DhcpRefusal {
  kind: 'dhcp_refusal'
  key: string
  net: number
  mac: string
  /** Unix seconds. */
  until: number
}

type Fields<E extends ResponderEntry> = Omit<E, 'kind' | 'key'>

export const dnsListener = (area: string, fields: Fields<DnsListener>): DnsListener => ({
  kind: 'dns_listener',
  key: `${area}/listener/${fields.address}/${fields.port}`,
  ...fields,
})

export const dnsZone = (area: string, fields: Fields<DnsZone>): DnsZone => ({
  kind: 'dns_zone',
  key: `${area}/zone/${fields.name}`,
  ...fields,
})

/** `id` tells the record from all others. */
export const dnsRecord = (area: string, id: number, fields: Fields<DnsRecord>): DnsRecord => ({
  kind: 'dns_record',
  key: `${area}/record/${id}`,
  ...fields,
})

export const dhcpNetwork = (area: string, fields: Fields<DhcpNetwork>): DhcpNetwork => ({
  kind: 'dhcp_network',
  key: `${area}/network/${fields.net}`,
  ...fields,
})

export const dhcpBinding = (area: string, fields: Fields<DhcpBinding>): DhcpBinding => ({
  kind: 'dhcp_binding',
  key: `${area}/binding/${fields.net}/${fields.address}`,
  ...fields,
})

export const dhcpRefusal = (area: string, fields: Fields<DhcpRefusal>): DhcpRefusal => ({
  kind: 'dhcp_refusal',
  key: `${area}/refusal/${fields.mac}`,
  ...fields,
})

export function isResponder(entry: { kind: string }): entry is ResponderEntry {
  return (RESPONDER_KINDS as readonly string[]).includes(entry.kind)
}

export const isDns = (entry: { kind: string }): entry is DnsEntry =>
  (DNS_KINDS as readonly string[]).includes(entry.kind)

export const isListener = (entry: ResponderEntry): entry is DnsListener | DhcpNetwork =>
  entry.kind === 'dns_listener' || entry.kind === 'dhcp_network'

/** In this order, whatever the order in which an entry was put together. */
const FIELDS: { readonly [K in ResponderEntry['kind']]: readonly (keyof Extract<ResponderEntry, { kind: K }>)[] } = {
  dns_listener: ['kind', 'key', 'address', 'port'],
  dns_zone: ['kind', 'key', 'name', 'soa', 'soaTtl', 'csk'],
  dns_record: ['kind', 'key', 'zone', 'name', 'type', 'ttl', 'value', 'subnet'],
  dhcp_network: ['kind', 'key', 'net', 'link', 'cidr', 'gateway', 'leaseSeconds', 'mtu', 'dns', 'domain'],
  dhcp_refusal: ['kind', 'key', 'net', 'mac', 'until'],
  dhcp_binding: ['kind', 'key', 'net', 'address', 'mac', 'hostname', 'endedAt'],
}

/** Everything about an entry, as one comparable string. */
export function responderFingerprint(entry: ResponderEntry): string {
  const fields = entry as unknown as Readonly<Record<string, unknown>>
  return JSON.stringify(FIELDS[entry.kind].map((name) => fields[name]))
}
