/** Policy rules by rtnetlink (RTM_*RULE; linux/fib_rules.h): those that look up a table. */
import { Attributes, Payload } from './attribute.ts'
import { AF_UNSPEC, addressFamily, addressText, type IpVersion, ipVersion, parsePrefix } from './inet.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from './wire.ts'

export const RTM_NEWRULE = 32
export const RTM_DELRULE = 33
const RTM_GETRULE = 34

const FRA_DST = 1
const FRA_SRC = 2
const FRA_IIFNAME = 3
const FRA_PRIORITY = 6
const FRA_FWMARK = 10
const FRA_TABLE = 15
const FRA_FWMASK = 16
const FRA_OIFNAME = 17
const FRA_PROTOCOL = 21
const FR_ACT_TO_TBL = 1
/** struct fib_rule_hdr */
const HEADER_SIZE = 12

export interface RoutingRule {
  version: IpVersion
  priority: number
  /** Prefixes; absent is every address. */
  from?: string
  to?: string
  /** The packet's mark under `fwmask` must be this. Both or none. */
  fwmark?: number
  fwmask?: number
  /** Names of links; they need not exist. */
  iif?: string
  oif?: string
  table: number
}

export interface ListedRule extends RoutingRule {
  /** FRA_PROTOCOL: who made it; 0 where unknown. */
  protocol: number
}

/** Rules of both versions that look up a table. Rejects as {@link Netlink.dump} does. */
export function listRules(netlink: Netlink): Promise<ListedRule[]> {
  // A strict kernel wants nothing but the family.
  const question = Buffer.alloc(HEADER_SIZE)
  question.writeUInt8(AF_UNSPEC, 0)
  return netlink.dump(RTM_GETRULE, question, ({ type, payload }) =>
    type === RTM_NEWRULE ? decodeRule(payload) : undefined,
  )
}

/** Reads RTM_NEWRULE or RTM_DELRULE; undefined for other families and other actions. Throws {@link WireError}. */
export function decodeRule(payload: Buffer): ListedRule | undefined {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const version = ipVersion(payload.readUInt8(0))
  if (version === undefined || payload.readUInt8(7) !== FR_ACT_TO_TBL) return undefined
  const [to, from] = [attributes.bytes(FRA_DST), attributes.bytes(FRA_SRC)]
  const fwmask = attributes.u32(FRA_FWMASK)
  const [iif, oif] = [attributes.text(FRA_IIFNAME), attributes.text(FRA_OIFNAME)]
  return {
    version,
    priority: attributes.u32(FRA_PRIORITY) ?? 0,
    table: attributes.u32(FRA_TABLE) ?? payload.readUInt8(4),
    protocol: attributes.u8(FRA_PROTOCOL) ?? 0,
    ...(to && { to: `${addressText(to)}/${payload.readUInt8(1)}` }),
    ...(from && { from: `${addressText(from)}/${payload.readUInt8(2)}` }),
    ...(fwmask !== undefined && { fwmark: attributes.u32(FRA_FWMARK) ?? 0, fwmask }),
    ...(iif !== undefined && { iif }),
    ...(oif !== undefined && { oif }),
  }
}

/** EEXIST when there is a rule with all the same fields, whoever made it. */
export function addRule(rule: RoutingRule, protocol: number): Message {
  return { type: RTM_NEWRULE, flags: NLM_F_CREATE | NLM_F_EXCL, payload: encode(rule, protocol) }
}

/**
 * Removes the first rule that has all the fields given, `protocol` included, and possibly more: see
 * {@link mayRemove}. ENOENT when there is none.
 */
export function deleteRule(rule: RoutingRule, protocol: number): Message {
  return { type: RTM_DELRULE, flags: 0, payload: encode(rule, protocol) }
}

/** Whether a deletion of `rule` may remove `other` instead: what a deletion leaves out, the kernel does not compare. */
export function mayRemove(rule: RoutingRule, other: RoutingRule): boolean {
  const same = (field: keyof RoutingRule) =>
    rule[field] === undefined || (field === 'fwmark' && rule.fwmark === 0) || rule[field] === other[field]
  const fields = ['version', 'priority', 'from', 'to', 'fwmark', 'fwmask', 'iif', 'oif', 'table'] as const
  return fields.every(same)
}

function encode(rule: RoutingRule, protocol: number): Buffer {
  const to = rule.to === undefined ? undefined : parsePrefix(rule.to)
  const from = rule.from === undefined ? undefined : parsePrefix(rule.from)
  const payload = new Payload()
    .raw(header(addressFamily(rule.version), to?.length, from?.length, rule.table))
    .u32(FRA_PRIORITY, rule.priority)
    .u32(FRA_TABLE, rule.table)
    .u8(FRA_PROTOCOL, protocol)
  if (to) payload.bytes(FRA_DST, to.bytes)
  if (from) payload.bytes(FRA_SRC, from.bytes)
  if (rule.fwmark !== undefined) payload.u32(FRA_FWMARK, rule.fwmark)
  if (rule.fwmask !== undefined) payload.u32(FRA_FWMASK, rule.fwmask)
  if (rule.iif !== undefined) payload.text(FRA_IIFNAME, rule.iif)
  if (rule.oif !== undefined) payload.text(FRA_OIFNAME, rule.oif)
  return payload.finish()
}

function header(family: number, toLength = 0, fromLength = 0, table = 0): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeUInt8(family, 0)
  bytes.writeUInt8(toLength, 1)
  bytes.writeUInt8(fromLength, 2)
  // One byte for the table; larger numbers are in FRA_TABLE alone.
  bytes.writeUInt8(table < 256 ? table : 0, 4)
  bytes.writeUInt8(FR_ACT_TO_TBL, 7)
  return bytes
}
