/** Makes the metrics that are counted as things happen, all of one registry, hence of one agent. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

export interface Maker {
  /** Each of `begin` is a set of labels that starts at 0, so that its first time shows as an increase. */
  counter(name: string, help: string, labelNames?: readonly string[], begin?: readonly Labels[]): Counter
  gauge(name: string, help: string): Gauge
  /** `buckets`: upper bounds, seconds. */
  histogram(name: string, help: string, buckets: readonly number[], labelNames?: readonly string[]): Histogram
}
export type Labels = Readonly<Record<string, string>>

/** Names are given without the `stratum_` that stands in front of all of them. */
export function openMaker(registry: Registry): Maker {
  const common = (name: string, help: string, labelNames: readonly string[]) => ({
    name: `stratum_${name}`,
    help,
    labelNames,
    registers: [registry],
  })
  return {
    counter(name, help, labelNames = [], begin = []) {
      const made = new Counter(common(name, help, labelNames))
      for (const labels of begin) made.inc(labels, 0)
      return made
    },
    gauge: (name, help) => new Gauge(common(name, help, [])),
    histogram: (name, help, buckets, labelNames = []) =>
      new Histogram({ ...common(name, help, labelNames), buckets: [...buckets] }),
  }
}
