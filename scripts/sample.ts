/** What lanes run of the tests, by their paths below build: each area and each engine once, by what is nearest to its user. */
export const SHORT: readonly string[] = [
  'core/state/test/store',
  'core/state/test/sqlite',
  'core/test/heap',
  'core/cli/test/control-socket',
]
export const LONG: readonly string[] = [
  'core/cli/test/bundle',
  'core/cli/test/doctor',
  'core/state/test/pipeline',
  'core/state/test/drift',
  'plugins/cluster/test/cluster',
  'plugins/cluster/test/join',
  'plugins/dns/test/resolve',
  'plugins/dhcp/test/packets',
  'plugins/bgp/test/sessions',
  'plugins/firewall/test/packets-order',
  'plugins/lb/test/packets-share',
  'test/package/package',
]
