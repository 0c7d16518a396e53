/**
 * An agent inside the test process, over a plane in memory: `const { agent, call } = await buildAgent(t)`.
 * Everything it makes goes away with the test.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import type { Agent } from '../core/agent.ts'
import { type BuildOptions, build } from '../core/app.ts'
import { hashSecret } from '../core/gates/bearer.ts'
import { openOverrides } from '../core/state/overrides.ts'
import { type FakePlane, fakePlane } from '../dataplane/plane.fake.ts'
import type { Scope } from './netns.ts'

export const TOKEN = 'nt_test-0123456789abcdefghijklmnopqrstuvwxyz'

export interface Answer {
  status: number
  body: Record<string, unknown>
  text: string
  headers: Record<string, string | string[] | number | undefined>
}

export interface BuiltAgent {
  agent: Agent
  plane: FakePlane
  stateDir: string
  /** Lines that were logged, parsed. */
  logged: Record<string, unknown>[]
  /** Calls as the operator with the node token; a body is sent as JSON. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
}

export interface BuildAgentOptions extends Partial<Omit<BuildOptions, 'log'>> {
  plane?: FakePlane
  /** false: no licence installed. */
  licensed?: boolean
  /** Configuration set before the start. */
  config?: Record<string, string>
}

/** A temporary directory that goes away with the test. */
export function scratch(t: Scope, label = 'stratum'): string {
  const dir = mkdtempSync(join(tmpdir(), `${label}-`))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

export async function buildAgent(t: Scope, options: BuildAgentOptions = {}): Promise<BuiltAgent> {
  const { plane = fakePlane(), licensed = true, config = {}, ...rest } = options
  const stateDir = options.stateDir ?? scratch(t)
  openOverrides(join(stateDir, 'overrides.json')).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
    content.rest = true
    Object.assign(content.config, config)
  })
  const logged: Record<string, unknown>[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void logged.push(JSON.parse(line)) })
  const agent = await build({
    stateDir,
    configFile: join(stateDir, 'panel.json'),
    environment: {},
    log,
    openPlane: async () => plane,
    ...rest,
  })
  t.teardown(() => agent.close())
  if (licensed && !agent.licence.view().installed) await agent.licence.evaluate()
  return { agent, plane, stateDir, logged, call: caller(agent) }
}

/** Only the area `name` and what the node itself answers. */
export function buildArea(t: Scope, name: string, options: BuildAgentOptions = {}): Promise<BuiltAgent> {
  return buildAgent(t, { only: ['node', name], ...options })
}

function caller({ app }: Agent): BuiltAgent['call'] {
  return async (method, path, body, headers = {}) => {
    const json = body === undefined ? {} : { payload: JSON.stringify(body) }
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const answer = await app.inject({
      method: method as 'GET',
      url: path,
      headers: { authorization: `Bearer ${TOKEN}`, ...type, ...headers },
      ...json,
    })
    return {
      status: answer.statusCode,
      body: answer.headers['content-type']?.toString().startsWith('application/json') ? answer.json() : {},
      text: answer.payload,
      headers: answer.headers,
    }
  }
}
