/** Names of IP protocols: the keywords of IANA's registry in lower case, of those that networks carry. Pure. */
const NAMES: Readonly<Record<number, string>> = {
  1: 'icmp',
  2: 'igmp',
  4: 'ipv4',
  6: 'tcp',
  17: 'udp',
  33: 'dccp',
  41: 'ipv6',
  47: 'gre',
  50: 'esp',
  51: 'ah',
  58: 'ipv6-icmp',
  88: 'eigrp',
  89: 'ospf',
  103: 'pim',
  112: 'vrrp',
  115: 'l2tp',
  132: 'sctp',
  136: 'udplite',
}
const NUMBERS = new Map(Object.entries(NAMES).map(([number, name]) => [name, Number(number)]))

/** The number as text where there is no name. */
export const protocolName = (number: number): string => NAMES[number] ?? String(number)

/** Of a name or a number; undefined for what is neither. */
export function protocolNumber(text: string): number | undefined {
  if (/^[0-9]{1,3}$/.test(text)) return Number(text) <= 255 ? Number(text) : undefined
  return NUMBERS.get(text)
}
