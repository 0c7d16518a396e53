/** `stratumd --quickstart`: a first run that works, told in one screen. What is configured already is left alone. */
import { join } from 'node:path'
import type { Agent } from './agent.ts'
import type { Places } from './environment.ts'
import { hashSecret } from './gates/bearer.ts'
import { system } from './state/events.ts'
import { openOverrides } from './state/overrides.ts'
import { newToken } from './transport/control.ts'

/** Not in PATH where nothing is installed. */
const CTL = join(import.meta.dirname, 'cli/main.js')

interface First {
  /** Present when it was minted now; it is printed once and kept nowhere. */
  token?: string
}

/** Before the agent is built: a token counts only from the start. */
function prepare({ stateDir }: Places): First {
  const overrides = openOverrides(join(stateDir, 'overrides.json'))
  const token = overrides.read().tokenHash === undefined ? newToken() : undefined
  overrides.change((content) => {
    if (token !== undefined) content.tokenHash = hashSecret(token).toString('hex')
    content.rest = true
  })
  return { ...(token !== undefined && { token }) }
}

async function finish(agent: Agent, first: First | undefined, { stateDir, runDir }: Places): Promise<void> {
  if (first === undefined) return
  const { licence, services, states } = agent
  if (!licence.view().installed) {
    await licence
      .evaluate()
      .then(() => agent.licenceNews.installed(system('quickstart')))
      .catch((error: Error) => say(`no evaluation licence: ${error.message}`))
  }
  const where = services.status().find(({ name }) => name === 'rest')
  if (where?.listening === undefined) {
    say(`REST does not listen: ${where?.off ?? 'unknown'}`)
    return
  }
  const url = `https://${where.listening.replace(/^\[::\]/, '127.0.0.1')}`
  const token = first.token ?? '<the token that was printed when it was made>'
  const off = states.all().filter(({ reason }) => reason !== undefined)
  for (const { name, reason } of off) say(`${name} is off on this node: ${reason}`)
  say(`API:   ${url}`)
  say(`token: ${token}`)
  say(`ctl:   alias stratumctl='STRATUM_STATE_DIR=${stateDir} STRATUM_RUN_DIR=${runDir} ${CTL}'`)
  say(`try:   curl -k -H 'Authorization: Bearer ${token}' ${url}/api/v1/status`)
}

/** stderr, so that the log on stdout stays NDJSON and the token stays out of it. */
const say = (line: string) => void process.stderr.write(`${line}\n`)

export const quickstart = { prepare, finish }
