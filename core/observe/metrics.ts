/**
 * The metrics of one agent, as the text that Prometheus reads (exposition format 0.0.4). Made by the composition root
 * before everything that counts; what is read on asking is added once the agent stands.
 */
import type { FastifyBaseLogger } from 'fastify'
import { type PrometheusContentType, Registry } from 'prom-client'
import { type EventCounts, eventCounts, type GateCounts, gateCounts, type PlaneCounts, planeCounts } from './counts.ts'
import { type HttpCounts, openHttpCounts } from './http.ts'
import { openMaker } from './maker.ts'
import { type Pass, passCounts } from './passes.ts'
import { type PipelineCounts, pipelineCounts } from './pipeline.ts'
import { readAll, type Source } from './reading.ts'

export interface Metrics {
  readonly http: HttpCounts
  readonly gates: GateCounts
  readonly events: EventCounts
  readonly pipeline: PipelineCounts
  readonly plane: PlaneCounts
  /** Notes a pass that has ended, whoever made it. */
  pass(pass: Pass): void
  /** Adds what is read on asking. */
  add<C>(source: Source<C>): void
  readonly contentType: PrometheusContentType
  /** Everything as text. What cannot be read is left out, logged once and counted; the rest is there. */
  text(): Promise<string>
}

export interface MetricsParts {
  /** All areas of this build; the core comes of itself. */
  areas: readonly string[]
  gates: readonly string[]
  now: () => Date
  log: FastifyBaseLogger
}

export function openMetrics({ areas, gates, now, log }: MetricsParts): Metrics {
  const registry = new Registry()
  const make = openMaker(registry)
  const owners = ['core', ...areas]
  const unreadable = make.counter(
    'scrape_errors_total',
    'Times the metrics of an area could not be read and were left out; the log says why.',
    ['area'],
    owners.map((area) => ({ area })),
  )
  const sources: Source<unknown>[] = []
  const failing = new Set<string>()

  async function textOf(source: Source<unknown>): Promise<string> {
    try {
      const text = await (await readAll(source)).metrics()
      failing.delete(source.name)
      return text
    } catch (error) {
      unreadable.inc({ area: source.name })
      if (!failing.has(source.name))
        log.warn({ err: error, area: source.name }, 'the metrics of an area cannot be read')
      failing.add(source.name)
      return ''
    }
  }

  return {
    http: openHttpCounts(registry),
    gates: gateCounts(make, gates),
    events: eventCounts(make, owners),
    pipeline: pipelineCounts(make, owners),
    plane: planeCounts(make),
    pass: passCounts(make, now),
    // A source is only ever read with the context it brings.
    add: (source) => void sources.push(source as Source<unknown>),
    contentType: registry.contentType,
    async text() {
      const read = await Promise.all(sources.map(textOf))
      return [await registry.metrics(), ...read].filter((text) => text.trim() !== '').join('\n')
    },
  }
}
