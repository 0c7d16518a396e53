import type { Caller } from '../../../core/gates/gate.ts'
import type { BuiltAgent } from '../../../test/build.ts'

/** Every key `xx_…` is this caller's from now on. */
export function caller({ agent }: BuiltAgent, who: Caller): void {
  agent.credentials.keys.set('xx', () => who)
}
