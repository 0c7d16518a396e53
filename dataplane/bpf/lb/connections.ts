/**
 * The connections of the load balancer, of which conntrack knows nothing, and ending them. One that is ended keeps its place:
 * its backend is heard no more, and each packet of the client is judged as if it opened a connection, until one is admitted.
 */
import type { Connection, Connections } from '../../connections.ts'
import { LB_BACKENDS } from '../../numbers.ts'
import { inSlices } from '../../slices.ts'
import type { BalancerMaps } from './maps.ts'
import {
  FAMILIES,
  type Family,
  FLOW_CLOSED,
  FLOW_ENDED,
  FLOW_OPEN,
  FLOW_TRANSLATED,
  PROTOCOLS,
  type Tuple,
} from './rows.ts'

export type Balanced = Pick<Connections, 'list' | 'end'>
type Rows = Pick<BalancerMaps, 'flows' | 'begun' | 'backends' | 'active'>

export function balancerConnections(maps: Rows): Balanced {
  const found = new WeakMap<Connection, [Family, Tuple]>()

  return {
    /** Those that have only begun, too. */
    async list() {
      const all: Connection[] = []
      for (const family of FAMILIES) {
        const known = new Set<string>()
        // One that is established meanwhile stands in both.
        for (const map of [maps.begun[family], maps.flows[family]]) {
          await inSlices(await map.lookupBatch(), ([tuple, flow]) => {
            const backend = flow.backend < LB_BACKENDS ? maps.backends.get(flow.backend, family) : undefined
            const name = `${tuple.source} ${tuple.sourcePort} ${tuple.dest} ${tuple.destPort} ${tuple.protocol}`
            if (backend?.generation !== flow.generation || known.has(name)) return
            known.add(name)
            const translated = (flow.state & FLOW_TRANSLATED) !== 0
            const connection: Connection = {
              family,
              protocol: PROTOCOLS[tuple.protocol],
              src: tuple.source,
              dst: tuple.dest,
              sport: tuple.sourcePort,
              dport: tuple.destPort,
              reply: {
                src: backend.address,
                sport: backend.port || tuple.destPort,
                dst: translated ? flow.own : tuple.source,
                dport: translated ? flow.ownPort : tuple.sourcePort,
              },
              established: (flow.state & (FLOW_OPEN | FLOW_CLOSED)) === FLOW_OPEN,
            }
            found.set(connection, [family, tuple])
            all.push(connection)
          })
        }
      }
      return all
    },

    async end(connections) {
      let ended = 0
      await inSlices(connections, (connection) => {
        const [family, tuple] = found.get(connection) ?? []
        if (family === undefined || tuple === undefined) return
        const one = end(maps, maps.begun[family], tuple)
        if (end(maps, maps.flows[family], tuple) || one) ended++
      })
      return ended
    },
  }
}

/** False when there is none, or it was ended before. */
function end({ backends, active }: Rows, map: BalancerMaps['flows'][Family], tuple: Tuple): boolean {
  const flow = map.get(tuple)
  if (flow === undefined || flow.state & FLOW_ENDED) return false
  try {
    map.set(tuple, { ...flow, state: flow.state | FLOW_ENDED }, 'existing')
  } catch {
    // The kernel has given it up meanwhile.
    return false
  }
  const counts = (flow.state & (FLOW_OPEN | FLOW_CLOSED)) === FLOW_OPEN
  if (counts && backends.generation(flow.backend) === flow.generation) Atomics.sub(active, flow.backend, 1n)
  return true
}
