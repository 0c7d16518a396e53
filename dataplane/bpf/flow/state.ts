/** In which state a flow is (D89). Nothing is stored of that: it follows from what was seen, and how long ago. Pure. */
import { FLOW_CLOCK_BITS, FLOW_IDLE, FLOW_IDLE_HALF_OPEN, FLOW_IDLE_TCP, FLOW_KEPT } from '../../numbers.ts'

export type FlowState = 'new' | 'active' | 'closed'
export const FLOW_STATES: readonly FlowState[] = ['new', 'active', 'closed']

/** RFC 9293 section 3.1 */
const [FIN, RST, ACK] = [0x01, 0x04, 0x10]
const TCP = 6

/** Milliseconds of a unit of the flow clock. */
export const UNIT_MS = 2 ** FLOW_CLOCK_BITS / 1e6

/** What of a flow its state follows from; pairs are of its two ends. */
export interface Seen {
  /** IP protocol number. */
  protocol: number
  /** Each end has sent something. */
  answered: boolean
  /** All flags that each end has sent. */
  tcp: readonly [number, number]
  /** Milliseconds since its last packet. */
  age: number
}

/** Undefined once it has been closed for a minute. */
export function flowState({ protocol, answered, tcp: [a, b], age }: Seen): FlowState | undefined {
  const isTcp = protocol === TCP
  const established = (a & b & ACK) !== 0
  const ended = isTcp && (((a | b) & RST) !== 0 || (a & b & FIN) !== 0)
  const idle = ended ? 0 : isTcp ? (established ? FLOW_IDLE_TCP : FLOW_IDLE_HALF_OPEN) : FLOW_IDLE
  if (age > (idle + FLOW_KEPT) * 1000) return undefined
  if (ended || age > idle * 1000) return 'closed'
  return answered && (!isTcp || established) ? 'active' : 'new'
}
