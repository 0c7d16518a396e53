/** Commands of routes and policy rules: the calls of REST, one by one. */
import { columns, path, type Verb, type VerbArgument, type VerbOption } from '../../core/cli/verb.ts'
import type { Route, Rule } from './schemas.ts'

const ROUTE: VerbArgument = { name: 'id', summary: 'number of the route' }
const RULE: VerbArgument = { name: 'id', summary: 'number of the policy rule' }
const tableText = (table: number) => (table === 0 ? 'main' : table)
const hex = (mark: number) => `0x${mark.toString(16)}`

/** The name of an option is the field's. */
const MATCHES: readonly VerbOption[] = [
  { flags: '--from <cidr>', summary: 'source address' },
  { flags: '--to <cidr>', summary: 'destination address' },
  { flags: '--fwmark <mark>', summary: 'mark of the packet, all 32 bits; decimal or 0x' },
  { flags: '--iif <name>', summary: 'device that the packet came in by; lo: sent by the node itself' },
  { flags: '--oif <name>', summary: 'device that the sending socket is bound to' },
]

export const verbs: readonly Verb[] = [
  {
    path: 'routes list',
    summary: 'list the static routes',
    example: 'routes list --table 100',
    options: [{ flags: '--table <n>', summary: 'only those of this table; 0: main' }],
    async run({ call, options: { table }, print }) {
      const query = table === undefined ? '' : path`?table=${String(table)}`
      const answer = await call<{ routes: Route[] }>('GET', `/api/v1/routes${query}`)
      const rows = answer.routes.map((route) => [
        route.id,
        route.destination,
        route.gateway,
        route.interface,
        route.metric,
        tableText(route.table),
      ])
      const head = ['ID', 'DESTINATION', 'GATEWAY', 'INTERFACE', 'METRIC', 'TABLE']
      print(answer, rows.length === 0 ? 'no routes' : columns([head, ...rows]))
    },
  },
  {
    path: 'routes add',
    summary: 'add a static route; it is in force when the command ends',
    example: 'routes add 10.20.0.0/16 --gateway 192.0.2.1',
    arguments: [{ name: 'destination', summary: 'CIDR; 0.0.0.0/0 or ::/0 is the default route' }],
    options: [
      { flags: '--gateway <address>', summary: 'router to hand packets to' },
      { flags: '--interface <name>', summary: 'device to send by; needed without a gateway' },
      { flags: '--metric <n>', summary: 'the lowest of several routes wins', integer: true },
      { flags: '--table <n>', summary: 'policy table; default main', integer: true },
    ],
    async run({ call, argument, options, print }) {
      const body = { destination: argument('destination'), ...options }
      const answer = await call<{ route: Route }>('POST', '/api/v1/routes', body)
      print(answer, `route ${answer.route.id} added to table ${tableText(answer.route.table)}`)
    },
  },
  {
    path: 'routes delete',
    summary: 'delete a static route',
    example: 'routes delete 12',
    arguments: [ROUTE],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/routes/${argument('id')}`)
      print(answer, `route ${answer.id} deleted`)
    },
  },
  {
    path: 'routes rules list',
    summary: 'list the policy rules in the order in which packets meet them',
    example: 'routes rules list',
    async run({ call, print }) {
      const answer = await call<{ rules: Rule[] }>('GET', '/api/v1/routes/rules')
      const rows = answer.rules.map((rule) => [rule.id, rule.priority, matchText(rule), rule.table])
      print(answer, rows.length === 0 ? 'no policy rules' : columns([['ID', 'PRIORITY', 'MATCH', 'TABLE'], ...rows]))
    },
  },
  {
    path: 'routes rules add',
    summary: 'add a policy rule; it is in force when the command ends',
    example: 'routes rules add --from 10.20.0.0/16 --table 100',
    options: [
      { flags: '--table <n>', summary: 'table that is looked up', required: true, integer: true },
      ...MATCHES,
      { flags: '--priority <n>', summary: 'lower comes first; default the lowest free from 10000', integer: true },
    ],
    async run({ call, options: { fwmark, ...options }, print }) {
      // What is no number becomes null, which the agent refuses.
      const body = { ...options, ...(fwmark !== undefined && { fwmark: Number(fwmark) }) }
      const answer = await call<{ rule: Rule }>('POST', '/api/v1/routes/rules', body)
      print(answer, `policy rule ${answer.rule.id} added with priority ${answer.rule.priority}`)
    },
  },
  {
    path: 'routes rules delete',
    summary: 'delete a policy rule',
    example: 'routes rules delete 3',
    arguments: [RULE],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/routes/rules/${argument('id')}`)
      print(answer, `policy rule ${answer.id} deleted`)
    },
  },
]

/** `from 10.0.0.0/8 fwmark 0x10 iif eth0`. */
function matchText({ from, to, fwmark, iif, oif }: Rule): string {
  const parts = [from && `from ${from}`, to && `to ${to}`, fwmark > 0 && `fwmark ${hex(fwmark)}`]
  return [...parts, iif && `iif ${iif}`, oif && `oif ${oif}`].filter(Boolean).join(' ')
}
