/**
 * Settings of one device that the kernel keeps below /proc/sys/net/ipv{4,6}/conf. A link's message tells them all
 * (IFLA_INET_CONF, IFLA_INET6_CONF: arrays by the numbers of linux/ip.h and linux/ipv6.h); they are set through the files.
 */
import { existsSync, writeFileSync } from 'node:fs'
import type { Attributes } from './attribute.ts'
import { AF_INET, AF_INET6 } from './inet.ts'

const IFLA_INET_CONF = 1
const IFLA_INET6_CONF = 2

/** By the number of IPV4_DEVCONF_* less one, which is the position in the array. '' has no file. */
const IPV4 = (
  'forwarding mc_forwarding proxy_arp accept_redirects secure_redirects send_redirects shared_media rp_filter ' +
  'accept_source_route bootp_relay log_martians tag arp_filter medium_id disable_xfrm disable_policy ' +
  'force_igmp_version arp_announce arp_ignore promote_secondaries arp_accept arp_notify accept_local src_valid_mark ' +
  'proxy_arp_pvlan route_localnet igmpv2_unsolicited_report_interval igmpv3_unsolicited_report_interval ' +
  'ignore_routes_with_linkdown drop_unicast_in_l2_multicast drop_gratuitous_arp bc_forwarding arp_evict_nocarrier'
).split(' ')

/** Position in the array by name; those whose file has another unit than the array are left out. */
const IPV6: Readonly<Record<string, number>> = {
  forwarding: 0,
  hop_limit: 1,
  accept_ra: 3,
  accept_redirects: 4,
  autoconf: 5,
  dad_transmits: 6,
  router_solicitations: 7,
  use_tempaddr: 10,
  max_addresses: 15,
  force_mld_version: 16,
  accept_ra_defrtr: 17,
  accept_ra_pinfo: 18,
  proxy_ndp: 22,
  optimistic_dad: 23,
  accept_source_route: 24,
  mc_forwarding: 25,
  disable_ipv6: 26,
  accept_dad: 27,
  force_tllao: 28,
  ndisc_notify: 29,
  suppress_frag_ndisc: 32,
  accept_ra_from_local: 33,
  use_optimistic: 34,
  accept_ra_mtu: 35,
  use_oif_addrs_only: 37,
  accept_ra_min_hop_limit: 38,
  ignore_routes_with_linkdown: 39,
  drop_unicast_in_l2_multicast: 40,
  drop_unsolicited_na: 41,
  keep_addr_on_down: 42,
  enhanced_dad: 46,
  addr_gen_mode: 47,
  disable_policy: 48,
  ndisc_evict_nocarrier: 56,
  accept_untracked_na: 57,
}

/** Values of one device as its link message tells them. */
export interface DeviceConf {
  readonly ipv4: readonly number[]
  readonly ipv6: readonly number[]
}

/** `ipv4/conf/<device>/<name>` → where the value stands; undefined for every path that is not known here. */
export function confPlace(path: string, device: string): { family: keyof DeviceConf; at: number } | undefined {
  const [family, conf, name, setting = ''] = path.split('/')
  if (conf !== 'conf' || name !== device || path.split('/').length !== 4) return undefined
  const at = family === 'ipv4' ? IPV4.indexOf(setting) : family === 'ipv6' ? (IPV6[setting] ?? -1) : -1
  return at < 0 ? undefined : { family: family === 'ipv4' ? 'ipv4' : 'ipv6', at }
}

/** The value behind a path; undefined where the kernel keeps none (IPv6 is off for the device). */
export function confValue(conf: DeviceConf, path: string, device: string): number | undefined {
  const place = confPlace(path, device)
  return place && conf[place.family][place.at]
}

/** Whether the device has the setting; one of IPv6 counts as had where the kernel has no IPv6 for the device. */
export function hasConf(conf: DeviceConf, path: string, device: string, wish: number): boolean {
  return confValue(conf, path, device) === wish || (path.startsWith('ipv6/') && conf.ipv6.length === 0)
}

/** All settings that are known here, as paths; for tests of the tables. */
export function confPaths(device: string): string[] {
  return [
    ...IPV4.map((name) => `ipv4/conf/${device}/${name}`),
    ...Object.keys(IPV6).map((name) => `ipv6/conf/${device}/${name}`),
  ]
}

/** Reads IFLA_AF_SPEC of a link's message. */
export function decodeConf(spec: Attributes | undefined): DeviceConf {
  return {
    ipv4: numbers(spec?.nested(AF_INET)?.bytes(IFLA_INET_CONF)),
    ipv6: numbers(spec?.nested(AF_INET6)?.bytes(IFLA_INET6_CONF)),
  }
}

/** Writes a setting in the namespace of this process. Throws the error of the file. Without IPv6 it has no settings. */
export function writeConf(path: string, value: number): void {
  if (path.startsWith('ipv6/') && !existsSync('/proc/sys/net/ipv6')) return
  writeFileSync(`/proc/sys/net/${path}`, `${value}\n`)
}

function numbers(bytes: Buffer | undefined): number[] {
  const values: number[] = []
  for (let at = 0; bytes !== undefined && at + 4 <= bytes.length; at += 4) values.push(bytes.readInt32LE(at))
  return values
}
