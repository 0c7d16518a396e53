/** Domain rules of the firewall: input → rows, and what changed. Knows neither Fastify nor the kernel. */
import { eq } from 'drizzle-orm'
import type { Change, Db, EventDraft, Member, Ref } from '../../core/area.ts'
import { badRequest, limitReached, notFound } from '../../core/errors.ts'
import { parseMac, parsePrefix } from '../../dataplane/nft/text.ts'
import { shortfall } from './legacy.ts'
import type { Limit } from './limit.ts'
import { requireSparesMembers } from './members.ts'
import { defaultAction, queries } from './queries.ts'
import { defaultRef, establishedRef, ruleRef } from './refs.ts'
import { NO_SCHEDULE, parseSchedule, type Schedule } from './schedule.ts'
import type { Rule, RuleInput, ScheduleInput } from './schemas.ts'
import { type Row, rules, settings } from './tables.ts'

type NewRow = Omit<Row, 'id' | 'tie' | keyof Schedule>

/** A row as REST shows it: empty and zero optional fields left out. */
export function toRule(row: Row): Rule {
  const short = shortfall(row)
  return {
    id: row.id,
    chain: row.chain,
    priority: row.priority,
    action: row.action,
    stateful: row.stateful,
    ...(row.protocol && { protocol: row.protocol }),
    ...(row.sourceIp && { source_ip: row.sourceIp }),
    ...(row.destIp && { dest_ip: row.destIp }),
    ...(row.sourcePort && { source_port: row.sourcePort }),
    ...(row.destPort && { dest_port: row.destPort }),
    ...(row.destPortMax && { dest_port_max: row.destPortMax }),
    ...(row.interface && { interface: row.interface }),
    ...(row.mac && { mac: row.mac }),
    ...(row.level && { level: row.level }),
    ...(row.comment && { comment: row.comment }),
    ...(short && { not_enforced: short.notEnforced }),
    ...(short?.leftOut && { not_applied: true }),
  }
}

/** Reads and checks what a schema cannot. Throws a 400 naming the field. */
export function readInput(input: RuleInput): NewRow {
  const source = readPrefix(input.source_ip, 'source_ip')
  const dest = readPrefix(input.dest_ip, 'dest_ip')
  const [sourcePort, destPort, destPortMax] = [input.source_port ?? 0, input.dest_port ?? 0, input.dest_port_max ?? 0]
  if (source && dest && source.family !== dest.family) {
    throw badRequest('source_ip, dest_ip: must be of the same address family')
  }
  if (destPortMax > 0 && destPort === 0) throw badRequest('dest_port_max: needs dest_port, the start of the range')
  if (destPortMax > 0 && destPortMax < destPort) throw badRequest('dest_port_max: must not be below dest_port')
  if (input.protocol === 'icmp') {
    if (source?.family === 6 || dest?.family === 6) throw badRequest('protocol: icmp is IPv4 only')
    if (sourcePort > 0 || destPort > 0) throw badRequest('protocol: icmp takes no ports')
  }
  if (input.stateful === false) throw badRequest('stateful: every rule is stateful; the only accepted value is true')
  return {
    action: input.action,
    priority: input.priority ?? 0,
    protocol: input.protocol ?? '',
    sourceIp: source?.text ?? '',
    destIp: dest?.text ?? '',
    sourcePort,
    destPort,
    destPortMax,
    interface: input.interface ?? '',
    mac: readMac(input.mac),
    level: readLevel(input.level),
    comment: input.comment ?? '',
    chain: 'prerouting',
    stateful: true,
  }
}

function readPrefix(text: string | undefined, field: string) {
  if (!text) return undefined
  const prefix = parsePrefix(text)
  if (prefix === undefined) throw badRequest(`${field}: not an IP address or CIDR`)
  return prefix
}

function readMac(text: string | undefined): string {
  if (!text) return ''
  const mac = parseMac(text)
  if (mac === undefined) throw badRequest('mac: not a MAC address')
  return mac
}

const readLevel = (level: string | undefined): string => (level === 'interface' ? 'bridge' : level || 'global')

export function createRule(
  tx: Db,
  input: RuleInput,
  limit: Limit,
  members: Iterable<Member> = [],
): Change<{ status: 'created'; rule: Rule }> {
  const row = insertOne(tx, input, limit, members)
  const rule = toRule(row)
  return {
    result: { status: 'created', rule },
    touch: touched(row),
    events: [created(rule)],
  }
}

/** Swaps in one step: a new id, the old one's place among equals, and its schedule (D66). */
export function replaceRule(
  tx: Db,
  path: string,
  input: RuleInput,
  members: Iterable<Member> = [],
): Change<{ status: 'updated'; rule: Rule }> {
  const fields = readInput(input)
  const old = find(tx, path)
  requireSparesMembers(fields, members)
  const { id } = old
  queries(tx).remove.run({ id })
  const { scheduleFrom, scheduleTo, scheduleDaily } = old
  const row = insert(tx, fields, undefined, old.tie, { scheduleFrom, scheduleTo, scheduleDaily })
  const rule = toRule(row)
  return {
    result: { status: 'updated', rule },
    touch: [ruleRef(id), ...touched(row), ...(old.action === 'accept' ? [] : [establishedRef])],
    events: [{ type: 'rule.updated', resource: `/api/v1/rules/${row.id}`, data: { ...rule, replaces: id } }],
  }
}

export function deleteRule(tx: Db, path: string): Change<{ status: 'deleted'; id: number }> {
  const row = find(tx, path)
  const { id } = row
  queries(tx).remove.run({ id })
  return {
    result: { status: 'deleted', id },
    touch: touched(row),
    events: [{ type: 'rule.deleted', resource: `/api/v1/rules/${id}`, data: { id } }],
  }
}

export function setDefault(
  tx: Db,
  action: 'allow' | 'deny',
): Change<{ status: 'updated'; default_action: 'allow' | 'deny' }> {
  const before = defaultAction(tx)
  tx.insert(settings)
    .values({ name: 'default_action', value: action })
    .onConflictDoUpdate({ target: settings.name, set: { value: action } })
    .run()
  const data = { from: before, default_action: action }
  return {
    result: { status: 'updated', default_action: action },
    touch: [defaultRef],
    events: [{ type: 'default_action.updated', resource: '/api/v1/rules/default', data }],
  }
}

/** Puts a rule on a schedule, or takes it off one (`undefined`). */
export function scheduleRule(tx: Db, path: string, input: ScheduleInput | undefined): Change<Row> {
  const { id } = find(tx, path)
  const schedule = input === undefined ? NO_SCHEDULE : parseSchedule(input)
  const row = tx.update(rules).set(schedule).where(eq(rules.id, id)).returning().get()
  markPending(tx, row)
  return {
    result: row,
    touch: touched(row),
    events: [{ type: 'rule.updated', resource: `/api/v1/rules/${id}`, data: toRule(row) }],
  }
}

/** Inserts a rule, alone or of a batch. Throws before it writes, so a refused one leaves nothing. */
export function insertOne(tx: Db, input: RuleInput, limit: Limit, members: Iterable<Member>): Row {
  const fields = readInput(input)
  requireSparesMembers(fields, members)
  return insert(tx, fields, limit, undefined, NO_SCHEDULE)
}

/** The change that a batch of inserted rows amounts to. */
export function inserted<T>(result: T, rows: readonly Row[]): Change<T> {
  return {
    result,
    touch: [...rows.map(({ id }) => ruleRef(id)), establishedRef],
    events: rows.map((row) => created(toRule(row))),
  }
}

/** The rule with the id that stands in a path. Text that is no id names no rule, like any other unknown one: 404. */
export function find(db: Db, path: string): Row {
  const id = /^[1-9][0-9]{0,14}$/.test(path) ? Number(path) : 0
  const row = queries(db).byId.get({ id })
  if (row === undefined) throw notFound('rule', path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

function insert(tx: Db, fields: NewRow, limit: Limit | undefined, tie: number | undefined, schedule: Schedule): Row {
  const count = Number(queries(tx).setting.get({ name: 'rule_count' })?.value ?? 0)
  if (limit && count >= limit.rules) throw limitReached('rules', limit.rules, limit.why)
  const values = { ...fields, ...schedule, stateful: 1, scheduleDaily: schedule.scheduleDaily ? 1 : 0, tie: tie ?? 0 }
  const id = Number(queries(tx).insert.run(values).lastInsertRowid)
  if (tie === undefined) queries(tx).setTie.run({ id })
  const row = { ...fields, ...schedule, id, tie: tie ?? id }
  markPending(tx, row)
  return row
}

/** A new drop ends the connections that it forbids (D72); until that is done the rule stands here. */
function markPending(tx: Db, row: Row): void {
  if (row.action !== 'accept') queries(tx).addPending.run({ rule: row.id })
}

const touched = (row: Row): Ref[] => [ruleRef(row.id), ...(row.action === 'accept' ? [] : [establishedRef])]

const created = (rule: Rule): EventDraft => ({ type: 'rule.created', resource: `/api/v1/rules/${rule.id}`, data: rule })
