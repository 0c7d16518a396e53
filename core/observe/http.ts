/**
 * What the API answers, per route. The numbers are plain ones and become samples when they are asked for: a labelled
 * histogram of prom-client takes ten times as long as this for every request.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import { addFamily, type Family, type Series } from './reading.ts'

const REQUESTS: Family = {
  name: 'stratum_http_requests_total',
  help: 'Requests answered over HTTPS and the control socket, by method, route and status. Paths that no route has count as route "unknown".',
  type: 'counter',
}
const DURATION: Family = {
  name: 'stratum_http_request_duration_seconds',
  help: 'Time from the arrival of a request until its answer was handed to the kernel, by method and route.',
  type: 'histogram',
}
/** Upper bounds of the histogram, seconds. */
const BOUNDS: readonly number[] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Label of all paths that no route has, so that nobody can make series by asking for them. */
export const UNKNOWN_ROUTE = 'unknown'
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** What one route has answered by one method. */
interface Tally {
  method: string
  route: string
  /** Status → answers. */
  codes: Map<number, number>
  /** Answers by the first bound that they do not exceed; the last is for those that exceed all. */
  counts: number[]
  /** Seconds. */
  sum: number
}

export interface HttpCounts {
  /** Counts every answer of `app`. */
  mount(app: FastifyInstance): void
  /** Counts the answer to a URL that could not be decoded, which no hook sees. */
  unrouted(request: FastifyRequest, reply: FastifyReply): void
}

export function openHttpCounts(registry: Registry): HttpCounts {
  const routes = new Map<string, Map<string, Tally>>()

  function tallyOf(route: string, method: string): Tally {
    const known = routes.get(route)?.get(method)
    if (known !== undefined) return known
    const tally: Tally = { method, route, codes: new Map(), counts: BOUNDS.map(() => 0).concat(0), sum: 0 }
    const methods = routes.get(route) ?? new Map<string, Tally>()
    routes.set(route, methods.set(method, tally))
    return tally
  }

  function count(request: FastifyRequest, reply: FastifyReply): void {
    const { method } = request
    const tally = tallyOf(request.routeOptions.url ?? UNKNOWN_ROUTE, METHODS.has(method) ? method : 'other')
    const seconds = reply.elapsedTime / 1000
    tally.codes.set(reply.statusCode, (tally.codes.get(reply.statusCode) ?? 0) + 1)
    tally.sum += seconds
    let at = 0
    while (seconds > (BOUNDS[at] ?? Number.POSITIVE_INFINITY)) at++
    tally.counts[at] = (tally.counts[at] ?? 0) + 1
  }

  const all = () => [...routes.values()].flatMap((methods) => [...methods.values()])
  addFamily(registry, REQUESTS, () => all().flatMap(answersOf))
  addFamily(registry, DURATION, () => all().flatMap(durationsOf))
  return {
    mount(app) {
      app.addHook('onResponse', (request, reply, done) => {
        count(request, reply)
        done()
      })
    },
    unrouted: count,
  }
}

function answersOf({ method, route, codes }: Tally): Series[] {
  return Array.from(codes, ([code, value]) => ({ value, labels: { method, route, code } }))
}

function durationsOf({ method, route, counts, sum }: Tally): Series[] {
  const labels = { method, route }
  let total = 0
  const buckets = counts.map((count, at) => {
    total += count
    return { metricName: `${DURATION.name}_bucket`, value: total, labels: { ...labels, le: BOUNDS[at] ?? '+Inf' } }
  })
  return [
    ...buckets,
    { metricName: `${DURATION.name}_sum`, value: sum, labels },
    { metricName: `${DURATION.name}_count`, value: total, labels },
  ]
}
