/** Commands of the firewall. Reads come from the control view, which shows schedules; changes are those of REST. */
import { columns, path, type Verb, type VerbArgument, type VerbOption } from '../../core/cli/verb.ts'
import type { Rule } from './schemas.ts'
import type { Verdict } from './trace.ts'

type ScheduledRule = Rule & { schedule?: { from: string; to: string; daily: boolean } }
type CountedRule = ScheduledRule & { packets?: number; bytes?: number }

const ID: VerbArgument = { name: 'id', summary: 'number of the rule' }

/** The name of an option is the field's, with dashes. */
const FIELDS: readonly VerbOption[] = [
  { flags: '--action <action>', summary: 'accept or drop', required: true },
  { flags: '--priority <n>', summary: 'lower comes first; default 0', integer: true },
  { flags: '--protocol <protocol>', summary: 'tcp, udp or icmp; default any' },
  { flags: '--source-ip <prefix>', summary: 'address or CIDR' },
  { flags: '--dest-ip <prefix>', summary: 'address or CIDR' },
  { flags: '--source-port <port>', summary: 'source port', integer: true },
  { flags: '--dest-port <port>', summary: 'destination port, or the first of a range', integer: true },
  { flags: '--dest-port-max <port>', summary: 'last destination port of a range', integer: true },
  { flags: '--interface <name>', summary: 'device that the traffic comes in by' },
  { flags: '--mac <mac>', summary: 'source MAC address' },
  {
    flags: '--level <level>',
    summary: 'global (default), bridge, vlan, private_network, mac or flow; broad ones first',
  },
  { flags: '--comment <text>', summary: 'free text' },
  { flags: '--chain <chain>', summary: 'prerouting, the only one' },
  { flags: '--stateful', summary: 'replies are admitted; always so' },
]

export const verbs: readonly Verb[] = [
  {
    path: 'rules list',
    summary: 'list the firewall rules with their schedules',
    example: 'rules list',
    options: [
      { flags: '--counters', summary: 'with the packets and bytes that each rule has decided since it was made' },
    ],
    async run({ call, options, print }) {
      const counted = options.counters === true
      const query = counted ? '?counters=true' : ''
      const answer = await call<{ rules: CountedRule[] }>('GET', `/control/v1/firewall/rules${query}`)
      const rows = answer.rules.map((rule) => [
        rule.id,
        rule.level ?? 'global',
        rule.priority,
        rule.action,
        matchText(rule),
        windowText(rule),
        ...(counted ? [rule.packets, rule.bytes] : []),
        rule.comment,
      ])
      const hits = counted ? ['PACKETS', 'BYTES'] : []
      const head = ['ID', 'LEVEL', 'PRIORITY', 'ACTION', 'MATCH', 'SCHEDULE', ...hits, 'COMMENT']
      print(answer, rows.length === 0 ? 'no rules' : columns([head, ...rows]))
    },
  },
  {
    path: 'rules show',
    summary: 'show one firewall rule with its schedule',
    example: 'rules show 12',
    arguments: [ID],
    async run({ call, argument, print }) {
      const id = argument('id')
      const { rules } = await call<{ rules: ScheduledRule[] }>('GET', '/control/v1/firewall/rules')
      // An unknown one is asked for by REST, so that the agent says what is wrong with it.
      const known = rules.find((rule) => String(rule.id) === id)
      const rule = known ?? (await call<ScheduledRule>('GET', path`/api/v1/rules/${id}`))
      print(rule, ruleText(rule))
    },
  },
  {
    path: 'rules add',
    summary: 'add a firewall rule; it is in force when the command ends',
    example: 'rules add --action drop --protocol tcp --dest-port 23 --comment "no telnet"',
    options: FIELDS,
    async run({ call, options, print }) {
      const body = Object.fromEntries(
        Object.entries(options).map(([name, value]) => [name.replaceAll('-', '_'), value]),
      )
      const answer = await call<{ rule: Rule }>('POST', '/api/v1/rules', body)
      print(answer, [`rule ${answer.rule.id} added`, ...shortfallLines(answer.rule)].join('\n'))
    },
  },
  {
    path: 'rules delete',
    summary: 'delete a firewall rule',
    example: 'rules delete 12',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/rules/${argument('id')}`)
      print(answer, `rule ${answer.id} deleted`)
    },
  },
  {
    path: 'rules default',
    summary: 'show or set what happens to traffic that no rule decides',
    example: 'rules default deny',
    arguments: [{ name: 'action', summary: 'allow or deny; without it the present one is shown', optional: true }],
    async run({ call, argument, print }) {
      const action = argument('action')
      const answer =
        action === ''
          ? await call<{ default_action: string }>('GET', '/api/v1/rules/default')
          : await call<{ default_action: string }>('PUT', '/api/v1/rules/default', { default_action: action })
      print(answer, `default action: ${answer.default_action}`)
    },
  },
  {
    path: 'rules trace',
    summary: 'say what becomes of a packet that opens a connection: which rule decides it, or the default',
    example: 'rules trace --src 198.51.100.7 --dst 192.0.2.1 --proto tcp --dport 22',
    options: [
      { flags: '--src <address>', summary: 'source address', required: true },
      { flags: '--dst <address>', summary: 'destination address, before translation', required: true },
      { flags: '--proto <protocol>', summary: 'tcp (default), udp, icmp or a protocol number' },
      { flags: '--sport <port>', summary: 'source port', integer: true },
      { flags: '--dport <port>', summary: 'destination port', integer: true },
      { flags: '--iif <name>', summary: 'device that it comes in by' },
      { flags: '--mac <mac>', summary: 'source MAC address' },
    ],
    async run({ call, options, print }) {
      const query = Object.entries(options).map(([name, value]) => path`${name}=${String(value)}`)
      const verdict = await call<Traced>('GET', `/control/v1/firewall/trace?${query.join('&')}`)
      print(verdict, verdictText(verdict))
    },
  },
  {
    path: 'rules schedule',
    summary: 'put a rule in force within a window only; times are UTC unless they name an offset',
    example: 'rules schedule 12 --from 22:00 --to 06:00 --daily',
    arguments: [ID],
    options: [
      { flags: '--from <time>', summary: 'RFC 3339; HH:MM with --daily', required: true },
      { flags: '--to <time>', summary: 'RFC 3339; HH:MM with --daily', required: true },
      { flags: '--daily', summary: 'every day, past midnight if --to is the earlier' },
    ],
    async run({ call, argument, options, print }) {
      const answer = await call<{ rule: ScheduledRule }>(
        'PUT',
        path`/control/v1/firewall/rules/${argument('id')}/schedule`,
        options,
      )
      print(answer, `rule ${answer.rule.id}: in force ${windowText(answer.rule)}`)
    },
  },
  {
    path: 'rules unschedule',
    summary: 'put a rule in force at all times again',
    example: 'rules unschedule 12',
    arguments: [ID],
    async run({ call, argument, print }) {
      const answer = await call<{ rule: Rule }>('DELETE', path`/control/v1/firewall/rules/${argument('id')}/schedule`)
      print(answer, `rule ${answer.rule.id}: in force always`)
    },
  },
]

type Traced = Omit<Verdict, 'rule'> & { rule?: ScheduledRule }

function verdictText({ decided_by, id, action, rank, rule, spared, judge, probes }: Traced): string {
  const [, priority = 0] = rank ?? []
  const rows: [string, string | undefined][] = [
    ['decided by', decided_by === 'rule' ? `rule ${id}` : 'the default action'],
    ['action', action],
    ['spared', spared],
    ['rank', rank && `level ${rule?.level ?? 'global'}, priority ${priority}, place ${rank[2]} among equals`],
    ['match', rule && matchText(rule)],
    ['schedule', rule && windowText(rule)],
    ['judge', judge === 'nft' ? 'nft, rule by rule' : `eBPF classifier, ${probes} tables looked into`],
  ]
  return columns(rows.filter(([, value]) => value !== undefined))
}

/** `tcp from 10.0.0.0/8 to 192.0.2.1 port 80-90 in eth0 mac 02:…`. */
function matchText(rule: Rule): string {
  const { protocol, source_ip, source_port, dest_ip, dest_port, dest_port_max, mac } = rule
  const ports = dest_port_max === undefined ? dest_port : `${dest_port}-${dest_port_max}`
  const parts: [string, string | number | undefined][] = [
    ['', protocol],
    ['from ', source_ip],
    ['source port ', source_port],
    ['to ', dest_ip],
    ['port ', ports],
    ['in ', rule.interface],
    ['mac ', mac],
  ]
  const given = parts.flatMap(([word, value]) => (value === undefined ? [] : [`${word}${value}`]))
  return given.length === 0 ? 'all traffic' : given.join(' ')
}

function windowText({ schedule }: ScheduledRule): string | undefined {
  if (schedule === undefined) return undefined
  return `${schedule.daily ? 'daily ' : ''}${schedule.from} to ${schedule.to}${schedule.daily ? ' UTC' : ''}`
}

function ruleText(rule: ScheduledRule): string {
  const { not_enforced, not_applied, schedule, ...fields } = rule
  const window = windowText(rule)
  const rows = [...Object.entries(fields), ...(window === undefined ? [] : [['schedule', window]])]
  return [columns(rows), ...shortfallLines(rule)].join('\n')
}

/** What the data plane does not do of the rule. */
function shortfallLines({ not_enforced = [], not_applied }: Rule): string[] {
  const lines = not_enforced.map(({ field, detail }) => `not enforced: ${field}: ${detail}`)
  return not_applied ? [...lines, 'not applied: the data plane leaves the whole rule out'] : lines
}
