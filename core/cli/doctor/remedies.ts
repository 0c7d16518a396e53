/** What makes a facility of the data plane available: the package, the kernel option, the setting. */

interface Remedy {
  /** Of the reason that the agent gives. */
  when: RegExp
  remedy: string
}

/** First those that say exactly what is missing, whatever the facility. */
const BY_REASON: readonly Remedy[] = [
  { when: /STRATUM_CLASSIFIER=off/, remedy: 'take STRATUM_CLASSIFIER out of the environment of the unit' },
  { when: /STRATUM_BALANCER=off/, remedy: 'take STRATUM_BALANCER out of the environment of the unit' },
  { when: /libnftables/, remedy: 'apt-get install libnftables1' },
  { when: /libbpf/, remedy: 'apt-get install libbpf1' },
  { when: /no bpf filesystem/, remedy: 'mount -t bpf bpf /sys/fs/bpf' },
  { when: /another zebra/, remedy: 'systemctl disable --now frr' },
  { when: /user frr|\bfrr\b.*(missing|install)|ENOENT.*(zebra|bgpd|bfdd)/i, remedy: 'apt-get install frr' },
  { when: /no account stratum-responder/, remedy: 'systemd-sysusers makes the account; then restart stratumd' },
  { when: /setpriv/, remedy: 'apt-get install util-linux, of which setpriv is a part; then restart stratumd' },
  {
    when: /responder (ended by itself|cannot be started: it ended)/,
    remedy: 'journalctl -u stratumd tells when and why; dmesg tells whether the kernel ended it for want of memory',
  },
  {
    when: /responder.*(EPERM|EACCES|refused|not given up)/,
    remedy:
      'run stratumd as root with CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_NET_RAW and CAP_NET_BIND_SERVICE; then restart it',
  },
  {
    when: /EPERM|EACCES|not permitted|CAP_/,
    remedy: 'run stratumd as root, or with CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON',
  },
]

const BY_FACILITY: Readonly<Record<string, string>> = {
  nft: 'apt-get install libnftables1; the kernel needs CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET; run stratumd as root',
  netlink: 'run stratumd as root, or with CAP_NET_ADMIN',
  bonding: 'modprobe bonding (CONFIG_BONDING)',
  classifier:
    'a kernel from 6.4 on with CONFIG_NETFILTER_BPF_LINK and CONFIG_DEBUG_INFO_BTF; until then nft judges by the same rules',
  port: 'a kernel from 6.1 on with CONFIG_DEBUG_INFO_BTF and either tcx (6.6) or CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF, libbpf1, and a bpf filesystem at /sys/fs/bpf; until then no port of br-work carries traffic',
  balancer: 'a kernel from 6.6 on and the classifier; until then nft balances',
  shaping: 'what the programs on the ports of br-work need (see port), CONFIG_NET_SCH_HTB and CONFIG_NET_SCH_FIFO',
  responder:
    'correct what is told, then restart stratumd: it tries at its start whether the process that answers DNS and DHCP works',
  bgp: 'apt-get install frr',
}

/** Trouble that is a facility's has the remedy of that. */
const OF_RESPONDER = BY_REASON.filter(({ when }) => /responder|setpriv/.test(when.source))

const BY_TROUBLE: readonly Remedy[] = [
  { when: /somebody/, remedy: "stratumctl events tail --since 0 --types 'agent.drift'" },
  {
    when: /device \S+ is not there, which source NAT rule \d+ /,
    remedy: 'make that device, or delete the rule: stratumctl snat list, stratumctl snat delete ID',
  },
  {
    when: /device \S+ is not there, which /,
    remedy: 'make that device, or name the one that is the uplink: stratumctl config set uplink DEVICE',
  },
  { when: /config|certificate|tls_/i, remedy: 'stratumctl config list; set the key anew or unset it' },
]

/** What to do about something that makes the agent `degraded`. */
export const remedyForTrouble = (what: string): string =>
  [...BY_TROUBLE, ...OF_RESPONDER].find(({ when }) => when.test(what))?.remedy ??
  'journalctl -u stratumd tells since when and why'

/** What a data plane can have. */
export const FACILITIES: readonly string[] = Object.keys(BY_FACILITY)

/** undefined where nobody knows better than the reason itself. */
export function remedyFor(facility: string, reason: string): string | undefined {
  return BY_REASON.find(({ when }) => when.test(reason))?.remedy ?? BY_FACILITY[facility]
}

/** Off because somebody said so. */
export const isChoice = (reason: string): boolean => /switched off|disabled by|=off\b/.test(reason)
