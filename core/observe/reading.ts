/**
 * Metrics that are read when somebody asks for them: from an area's declaration, or the core's own, to families of
 * samples. What is counted as it happens stands in counts.ts and http.ts.
 */
import { type Metric, Registry } from 'prom-client'
import type { Reading, Sample } from '../area.ts'

/** What the text format 0.0.4 says of a metric before its samples. */
export interface Family {
  name: string
  help: string
  type: 'gauge' | 'counter' | 'histogram'
}
export interface Series {
  value: number
  labels: Readonly<Record<string, string | number>>
  /** For the series of a histogram, whose names are longer than its own. */
  metricName?: string
}

/** What is read together: when one of its metrics fails, none of it is shown. */
export interface Source<Context> {
  /** For the log and the count of errors. */
  name: string
  /** Every name begins with this. */
  prefix: string
  metrics: readonly Reading<Context>[]
  context: Context
}

const NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/
/** Prometheus gives these a meaning of their own. */
const RESERVED_LABELS = ['le', 'quantile']

/** Lets `registry` show these `values`, taken whenever it is asked. */
export function addFamily(registry: Registry, family: Family, values: () => readonly Series[]): void {
  const metric = { name: family.name, get: async () => ({ ...family, aggregator: 'sum', values: values() }) }
  // prom-client types only what it makes itself; of others its registry wants the name and `get`.
  registry.registerMetric(metric as unknown as Metric)
}

/** A source of `area`, whose names are forced to begin with `stratum_<area>_`. @throws Error for a bad declaration */
export function sourceOf<C>(area: string, metrics: readonly Reading<C>[], context: C): Source<C> {
  const names = new Set<string>()
  for (const metric of metrics) {
    const wrong = names.has(metric.name) ? 'is declared twice' : problemOf(metric)
    if (wrong !== undefined) throw new Error(`metric ${metric.name} of area ${area} ${wrong}`)
    names.add(metric.name)
  }
  return { name: area, prefix: `stratum_${area.replaceAll('-', '_')}_`, metrics, context }
}

/** What is wrong with a declaration by the naming rules of Prometheus; undefined when nothing is. */
export function problemOf({ name, help, type, labels = [] }: Omit<Reading<never>, 'read'>): string | undefined {
  if (!NAME.test(name)) return 'must be named in snake_case'
  if ((type === 'counter') !== name.endsWith('_total')) return 'must end in _total if it is a counter, and only then'
  if (/_(count|sum|bucket)$/.test(name)) return 'ends like a series of a histogram'
  if (help.trim() === '') return 'has no help text'
  const bad = labels.find((label) => !NAME.test(label) || RESERVED_LABELS.includes(label))
  return bad === undefined ? undefined : `cannot have the label ${bad}`
}

/** Reads all metrics of a source into a registry of their own; one without samples is left out. @throws what a read throws */
export async function readAll<C>({ prefix, metrics, context }: Source<C>): Promise<Registry> {
  const registry = new Registry()
  for (const metric of metrics) {
    const values = Array.from(await metric.read(context), (sample) => checked(metric, sample))
    const { name, help, type } = metric
    if (values.length > 0) addFamily(registry, { name: `${prefix}${name}`, help, type }, () => values)
  }
  return registry
}

function checked<C>({ name, labels: declared = [] }: Reading<C>, { value, labels = {} }: Sample): Series {
  const given = Object.keys(labels)
  if (given.length !== declared.length || !declared.every((label) => label in labels)) {
    throw new TypeError(
      `${name}: labels are ${given.join(', ') || 'none'}, declared are ${declared.join(', ') || 'none'}`,
    )
  }
  if (!Number.isFinite(value)) throw new TypeError(`${name}: ${value} is not a number to show`)
  return { value, labels }
}
