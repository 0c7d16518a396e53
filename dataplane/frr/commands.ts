/**
 * A difference of entries as the commands that carry it out. Pure.
 *
 * New lists and maps come first and those that nobody uses any more go last, so whoever uses one never finds it missing.
 */
import type { BgpEntry, BgpKind } from './entries.ts'
import { type Statement, statementText } from './statements.ts'

export interface BgpPassage {
  before?: BgpEntry
  after?: BgpEntry
}

type Step = (passage: BgpPassage) => Statement[]

/** Commands for `configure terminal`. A node is entered by its own line, from wherever the one before has led. */
export function commandsFor(diff: readonly BgpPassage[]): string[] {
  const of = (...kinds: BgpKind[]) =>
    diff.filter(({ before, after }) => kinds.includes((after ?? before)?.kind ?? (kinds[0] as BgpKind)))
  const added = (all: readonly BgpPassage[]) => all.filter(({ before }) => before === undefined)
  const changed = (all: readonly BgpPassage[]) => all.filter(({ before, after }) => before && after)
  const gone = (all: readonly BgpPassage[]) => all.filter(({ after }) => after === undefined)
  const order: readonly (readonly [readonly BgpPassage[], Step])[] = [
    [added(of('bgp_prefix_list')), whole],
    [added(of('bgp_route_map')), whole],
    [changed(of('bgp_prefix_list')), replaced],
    [changed(of('bgp_route_map')), rewritten],
    [gone(of('bgp_network')), removed],
    [gone(of('bgp_neighbor')), removed],
    [gone(of('bgp_instance')), removed],
    [added(of('bgp_instance')), whole],
    [changed(of('bgp_instance')), adjusted],
    [added(of('bgp_neighbor')), opened],
    [changed(of('bgp_neighbor')), reopened],
    [of('bgp_network').filter(({ after }) => after), whole],
    [gone(of('bgp_route_map')), removed],
    [gone(of('bgp_prefix_list')), removed],
  ]
  return [...placed(order.flatMap(([passages, step]) => passages.flatMap(step)))]
}

/** Statements, each preceded by the lines that lead to its node. */
export function* placed(statements: readonly Statement[]): Generator<string> {
  let at = ''
  for (const { in: path, line } of statements) {
    const place = path.join('\n')
    // A route-map opens by the line that makes it.
    if (place !== at && path.length > 0) yield* path
    yield line
    at = path.length === 0 ? line : place
  }
}

const whole: Step = ({ after }) => [...(after?.statements ?? [])]

/** Somebody else has edited what never changes. */
const replaced: Step = (passage) => [...removed({ before: passage.before as BgpEntry }), ...whole(passage)]

function byRule(statements: readonly Statement[]): Map<string, Statement[]> {
  const rules = new Map<string, Statement[]>()
  for (const statement of statements) {
    const rule = statement.in[0] ?? statement.line
    rules.set(rule, [...(rules.get(rule) ?? []), statement])
  }
  return rules
}

/** Rule by rule: those that stay the same are not touched. */
const rewritten: Step = ({ before, after }) => {
  const [old, fresh] = [before, after].map((entry) => byRule(entry?.statements ?? []))
  const text = (statements: readonly Statement[] = []) => statements.map(statementText).sort().join('\n')
  const rules = [...new Set([...(old?.keys() ?? []), ...(fresh?.keys() ?? [])])]
  return rules.flatMap((rule) => {
    const [was, is] = [old?.get(rule), fresh?.get(rule)]
    if (text(was) === text(is)) return []
    return [...(was ? [{ in: [], line: `no ${rule}` }] : []), ...(is ?? [])]
  })
}

const removed: Step = ({ before }) => {
  const [first] = before?.statements ?? []
  if (before === undefined || first === undefined) return []
  const no = (line: string): Statement => ({ in: first.in, line: `no ${line}` })
  switch (before.kind) {
    case 'bgp_prefix_list':
      return before.statements.map(({ line }) => no(line))
    case 'bgp_route_map':
      return [no(words(first.in[0] ?? first.line, 2))]
    case 'bgp_instance':
      return [{ in: [], line: `no ${first.in[0] ?? first.line}` }]
    case 'bgp_neighbor':
      return [{ in: first.in.slice(0, 1), line: `no ${words(first.line, 2)}` }]
    case 'bgp_network':
      return [no(words(first.line, 2))]
  }
}

const opened: Step = ({ after }) => {
  const [first] = after?.statements ?? []
  if (after === undefined || first === undefined) return []
  return [...after.statements, { in: first.in.slice(0, 1), line: `no ${words(first.line, 2)} shutdown` }]
}

/** A session that only gets other policies stays as it is. */
const reopened: Step = (passage) => {
  const identity = (entry: BgpEntry | undefined) =>
    (entry?.statements ?? [])
      .filter(({ line }) => /^neighbor \S+ (remote-as|local-as) /.test(line))
      .map(statementText)
      .join()
  if (identity(passage.before) === identity(passage.after)) return adjusted(passage)
  return [...removed({ before: passage.before as BgpEntry }), ...opened(passage)]
}

/** What is new is set, and what nothing new stands in the place of is taken back. */
const adjusted: Step = ({ before, after }) => {
  const [old, fresh] = [before, after].map(
    (entry) => new Map((entry?.statements ?? []).map((it) => [statementText(it), it])),
  )
  if (old === undefined || fresh === undefined) return []
  const added = [...fresh].filter(([text]) => !old.has(text)).map(([, it]) => it)
  const places = new Set(added.map(placeOf))
  const lost = [...old].filter(([text, it]) => !fresh.has(text) && !places.has(placeOf(it))).map(([, it]) => it)
  return [...added, ...lost.map((it) => ({ ...it, line: takenBack(it.line) }))]
}

/** Values are not repeated: bgpd knows them, some of its commands take none, and one may be a secret. */
function takenBack(line: string): string {
  if (line.startsWith('no ')) return line.slice('no '.length)
  const [setting] = /^neighbor \S+ (timers connect|timers|password|bfd|maximum-prefix)/.exec(line) ?? []
  return `no ${setting ?? line}`
}

/** Of the statements in one place there can be one only. */
function placeOf({ in: path, line }: Statement): string {
  const all = line.split(' ')
  const several = all[2] === 'route-map' ? all.at(-1) : /^timers connect/.test(all.slice(2).join(' ')) ? 'connect' : ''
  const head = all[0] === 'neighbor' ? all.slice(0, 3) : all.slice(0, 2)
  return [...path, ...head, several].join('\n')
}

const words = (line: string, many: number): string => line.split(' ').slice(0, many).join(' ')
