/**
 * What to do about what is amiss: the package, the kernel option, the setting that makes a facility available, and the way out of
 * whatever makes the node `degraded`.
 */
import type { Amiss, Source } from './health.ts'

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
  {
    when: /user frr may not pass/,
    remedy:
      'chmod o+x the directory that is named, or set STRATUM_RUN_DIR in the environment of the unit; then restart stratumd',
  },
  { when: /\/(zebra|bfdd|bgpd) does not run/, remedy: 'apt-get install --reinstall frr; then restart stratumd' },
  {
    when: /\/(zebra|bfdd|bgpd) knows no /,
    remedy: "apt-get install frr, of Debian's own release; then restart stratumd",
  },
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
  { when: /another zebra/, remedy: 'systemctl disable --now frr' },
  {
    when: /carr(ies|y) (no )?traffic, because/,
    remedy: `put right what keeps the programs of the ports out; they need ${BY_FACILITY.port}`,
  },
  {
    when: /interface \S+ does not exist/,
    remedy: 'make that interface, or delete what names it; it is taken as soon as it is there',
  },
  {
    when: /exists and is not ours/,
    remedy:
      'delete or rename what another program has made there (ip addr, ip link, ip route), or delete it from the store',
  },
  {
    when: /^bgpd: /,
    remedy: 'correct the neighbor, prefix or policy that bgpd refuses: stratumctl bgp neighbors',
  },
  {
    when: /^STRATUM_\w+ is ignored|in the environment is ignored|; correct STRATUM_/,
    remedy: 'correct it in the environment of the unit (systemctl edit stratumd), then systemctl restart stratumd',
  },
  {
    when: /^\d+ more entries wait$/,
    remedy: 'put right what the lines before this one say: the others are shown then',
  },
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

/** Where the text says nothing that is known here. A caution and an ailment bring what to do with them. */
const BY_SOURCE: Readonly<Record<Exclude<Source, 'ailment' | 'caution'>, string>> = {
  kernel: 'put right what the kernel refuses, as the line says, then stratumctl drift check tries it at once',
  store: 'df -h and df -i of the state directory, dmesg for errors of its disk; it is tried again every second',
  waiting: 'put right what the line names, or delete what waits for it; it is tried again by itself',
  setting: 'stratumctl config list; set the key anew or unset it',
}

/** What to do about something that makes the agent `degraded`. The source is unknown where an agent before this one tells it. */
export function remedyForTrouble({ source, what, remedy }: Omit<Amiss, 'source'> & { source?: Source }): string {
  if (remedy !== undefined) return remedy
  const known = [...BY_TROUBLE, ...OF_RESPONDER].find(({ when }) => when.test(what))?.remedy
  const general = source === undefined || source === 'ailment' || source === 'caution' ? undefined : BY_SOURCE[source]
  return known ?? general ?? 'journalctl -u stratumd tells since when and why'
}

/** What a data plane can have. */
export const FACILITIES: readonly string[] = Object.keys(BY_FACILITY)

/** undefined where nobody knows better than the reason itself. */
export function remedyFor(facility: string, reason: string): string | undefined {
  return BY_REASON.find(({ when }) => when.test(reason))?.remedy ?? BY_FACILITY[facility]
}

/** Off because somebody said so. */
export const isChoice = (reason: string): boolean => /switched off|disabled by|=off\b/.test(reason)
