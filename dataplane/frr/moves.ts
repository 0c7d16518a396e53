/**
 * Moves of bgpd's state machines, as it logs them (`debug bgp neighbor-events`), and the state of a session that follows. Pure.
 *
 * While both sides connect a neighbor has two machines, one a connection (RFC 4271 §6.8, §8.2.1), which the log does not tell apart and of
 * which bgpd may make one the other. So both are kept, in no other order than that of their beginning; the session is as far as the
 * one of them that is farther.
 */
import type { BgpState } from './bgp.ts'

/** Words of bgpd: beside the states of RFC 4271 `Clearing` and `Deleted`. */
export interface Move {
  address: string
  from: string
  to: string
}

/** FRR 10 names the socket, too: `10.7.0.2 fd 20 went from …`, and -1 for none. */
const MOVE = /^([0-9a-f.:]{2,45})(?: fd -?\d{1,10})? went from ([A-Za-z]{1,16}) to ([A-Za-z]{1,16})$/

/** undefined for a line that tells of something else. */
export function readMove(text: string): Move | undefined {
  const [, address, from, to] = MOVE.exec(text) ?? []
  return address === undefined || from === undefined || to === undefined ? undefined : { address, from, to }
}

/** Connect and Active are the same way forward: there is no connection yet. */
const FARNESS: ReadonlyMap<string, number> = new Map([
  ['Connect', 1],
  ['Active', 1],
  ['OpenSent', 2],
  ['OpenConfirm', 3],
  ['Established', 4],
])
const far = (state: string): number => FARNESS.get(state) ?? 0
const GONE = 'Deleted'

export interface Machines {
  /** undefined for a neighbor of which nothing has been told. */
  state(address: string): BgpState | undefined
  /** @returns the state of the session after it; undefined when the move does not fit what was known, of which nothing is left then. */
  move(move: Move): BgpState | undefined
  /** The first machine of each neighbor, as bgpd has just told. */
  settle(neighbors: Iterable<{ address: string; state: BgpState }>): void
}

export function openMachines(): Machines {
  const all = new Map<string, string[]>()
  const session = (machines: readonly string[]): BgpState => {
    const farthest = machines.reduce((best, state) => (far(state) > far(best) ? state : best), 'Idle')
    return farthest as BgpState
  }
  return {
    state(address) {
      const machines = all.get(address)
      return machines && session(machines)
    },
    move({ address, from, to }) {
      const machines = all.get(address) ?? ['Idle']
      const at = machines.lastIndexOf(from)
      // One that begins, because the neighbor has connected.
      if (at < 0 && from === 'Idle') machines.push(to)
      else if (at < 0) {
        all.delete(address)
        return undefined
      } else machines[at] = to
      const left = machines.filter((state) => state !== GONE)
      if (left.length === 0) all.delete(address)
      else all.set(address, left)
      return session(left)
    },
    settle(neighbors) {
      all.clear()
      for (const { address, state } of neighbors) all.set(address, [state])
    },
  }
}
