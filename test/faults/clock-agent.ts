/**
 * The agent with a clock that can be set: run it as `main` of startAgent. On SIGUSR2 it is as many ms ahead as stand in the file
 * that TEST_CLOCK names. Timers and etcd go on by the monotonic clock, as they do when the clock of a host is set.
 */
import { readFileSync } from 'node:fs'
import { main } from '../../core/daemon.ts'

const Real = Date
const state = { ahead: 0 }
const look = () => {
  state.ahead = Number(readFileSync(process.env.TEST_CLOCK ?? '', 'utf8'))
}
class Shifted extends Real {
  constructor(...given: [] | [value: number]) {
    if (given.length === 0) super(Real.now() + state.ahead)
    else super(...given)
  }
  static override now = () => Real.now() + state.ahead
}
globalThis.Date = Shifted as DateConstructor
look()
process.on('SIGUSR2', look)
await main(() => {})
