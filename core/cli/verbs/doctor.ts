/** What is off or amiss on this node, why, and what puts it right; also while the agent does not run. */
import { Unreachable } from '../client.ts'
import { askAgent } from '../doctor/agent.ts'
import { type Finding, findingLines, worstOf } from '../doctor/finding.ts'
import { certificateFindings, lookAtHost } from '../doctor/host.ts'
import { lookAtSilence } from '../doctor/silent.ts'
import type { Verb, VerbContext } from '../verb.ts'

/** Part of the process contract; see EXIT in program.ts. */
const CODES = { ok: 0, note: 0, warning: 4, failure: 5 } as const

export const verbs: readonly Verb[] = [
  {
    path: 'doctor',
    summary: 'say what is off or amiss and what puts it right; exit code 0: well, 4: warnings, 5: failures',
    example: 'doctor',
    options: [{ flags: '--log <file>', summary: 'log of an agent that does not run; else the journal is looked into' }],
    async run(context) {
      const findings = await examine(context)
      const worst = worstOf(findings)
      context.print({ worst, findings }, findingLines(findings))
      return CODES[worst]
    },
  },
]

/** All that is found, whether the agent runs or not. */
export async function examine(context: VerbContext): Promise<Finding[]> {
  return [...(await ofAgent(context)), ...lookAtHost(context.places)]
}

async function ofAgent(context: VerbContext): Promise<Finding[]> {
  const { call, places, options } = context
  const certificate = (configured: string) => certificateFindings(places.stateDir, configured, new Date())
  try {
    const told = await askAgent(context)
    const { value } = await call<{ value: string }>('GET', '/control/v1/config/tls_cert')
    return [...told, ...certificate(value)]
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error
    const log = options.log === undefined ? undefined : String(options.log)
    return [...lookAtSilence(places, error.message, log), ...certificate('')]
  }
}
