/**
 * Reads the Prometheus text format 0.0.4 by its own grammar, so that what the agent writes is judged by somebody else:
 * `const metrics = readExposition(text)`, then `metrics.value('stratum_x_total', { area: 'firewall' })`.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export interface Series {
  name: string
  labels: Readonly<Record<string, string>>
  value: number
}

export interface Shown {
  name: string
  help: string
  type: string
  series: Series[]
}

export interface Exposition {
  families: ReadonlyMap<string, Shown>
  /** The one series of that name whose labels contain `labels`; undefined when there is none. */
  value(name: string, labels?: Record<string, string>): number | undefined
  /** All series of that name whose labels contain `labels`. */
  series(name: string, labels?: Record<string, string>): Series[]
}

const COMMENT = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y
const TYPES = ['counter', 'gauge', 'histogram', 'summary', 'untyped']

/** @throws Error that names the line which is against the format */
export function readExposition(text: string): Exposition {
  if (!text.endsWith('\n')) throw new Error('the last line is not ended')
  const families = new Map<string, Shown>()
  const seen = new Set<string>()
  let current: Shown | undefined
  for (const line of text.split('\n').filter((line) => line !== '')) {
    if (line.startsWith('#')) current = readComment(line, families, current)
    else {
      const series = readSample(line)
      if (current === undefined || !belongs(series.name, current)) throw new Error(`outside its family: ${line}`)
      const identity = `${series.name} ${JSON.stringify(Object.entries(series.labels).sort())}`
      if (seen.has(identity)) throw new Error(`twice: ${line}`)
      seen.add(identity)
      current.series.push(series)
    }
  }
  for (const family of families.values()) judge(family)
  const all = [...families.values()].flatMap(({ series }) => series)
  const pick: Exposition['series'] = (name, labels = {}) =>
    all.filter(
      (series) =>
        series.name === name && Object.entries(labels).every(([label, value]) => series.labels[label] === value),
    )
  return {
    families,
    series: pick,
    value(name, labels) {
      const found = pick(name, labels)
      if (found.length > 1) throw new Error(`${found.length} series of ${name} fit ${JSON.stringify(labels)}`)
      return found[0]?.value
    },
  }
}

function readComment(line: string, families: Map<string, Shown>, current: Shown | undefined): Shown {
  const [, what, name = '', rest = ''] = COMMENT.exec(line) ?? []
  if (what === undefined) throw new Error(`not a HELP or TYPE line: ${line}`)
  if (what === 'HELP') {
    if (families.has(name)) throw new Error(`described twice, or in two places: ${line}`)
    const family = { name, help: rest, type: '', series: [] }
    families.set(name, family)
    return family
  }
  if (current?.name !== name || current.type !== '') throw new Error(`TYPE does not follow its HELP: ${line}`)
  if (!TYPES.includes(rest)) throw new Error(`no such type: ${line}`)
  current.type = rest
  return current
}

function readSample(line: string): Series {
  const [, name = '', inside, number = ''] = SAMPLE.exec(line) ?? []
  if (name === '') throw new Error(`not a sample: ${line}`)
  const value =
    number === '+Inf' ? Number.POSITIVE_INFINITY : number === '-Inf' ? Number.NEGATIVE_INFINITY : Number(number)
  if (Number.isNaN(value)) throw new Error(`not a number: ${line}`)
  return { name, labels: inside === undefined ? {} : readLabels(inside, line), value }
}

function readLabels(inside: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  for (let end = 0; end < inside.length; end = LABEL.lastIndex) {
    const [, name = '', value = ''] = LABEL.exec(inside) ?? []
    if (name === '' || name in labels) throw new Error(`bad labels: ${line}`)
    labels[name] = value.replace(/\\(.)/g, (_, char) => (char === 'n' ? '\n' : char))
  }
  return labels
}

const belongs = (name: string, family: Shown): boolean =>
  family.type === 'histogram'
    ? ['_bucket', '_sum', '_count'].some((ending) => name === family.name + ending)
    : name === family.name

function judge(family: Shown): void {
  const { name, type, series } = family
  if (type === '') throw new Error(`${name} has no type`)
  if (type === 'counter' && series.some(({ value }) => value < 0)) throw new Error(`${name}: a counter below 0`)
  if (type === 'histogram') judgeHistogram(family)
}

/** Buckets are cumulative, the last is +Inf, and it is the count. */
function judgeHistogram({ name, series }: Shown): void {
  const groups = new Map<string, Series[]>()
  for (const one of series) {
    const { le: _, ...labels } = one.labels
    const key = JSON.stringify(Object.entries(labels).sort())
    groups.set(key, [...(groups.get(key) ?? []), one])
  }
  for (const [labels, group] of groups) {
    const buckets = group.filter((one) => one.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels: { le } }) => (le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le)))
    const rises = (values: readonly number[]) => values.every((value, at) => at === 0 || value >= (values[at - 1] ?? 0))
    const count = group.find((one) => one.name === `${name}_count`)?.value
    const whole = group.some((one) => one.name === `${name}_sum`) && buckets.at(-1)?.value === count
    const ordered = rises(bounds) && rises(buckets.map(({ value }) => value))
    if (!whole || !ordered || bounds.at(-1) !== Number.POSITIVE_INFINITY) {
      throw new Error(`${name}${labels} is no histogram: ${JSON.stringify(group)}`)
    }
  }
}
