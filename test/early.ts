/** An agent that answers and has not started: its data plane opens when the test says so. */
import pino from 'pino'
import type { Agent } from '../core/agent.ts'
import { assemble, type BuildOptions } from '../core/app.ts'
import { hashSecret } from '../core/gates/bearer.ts'
import { openOverrides } from '../core/state/overrides.ts'
import { type FakePlane, fakePlane } from '../dataplane/plane.fake.ts'
import { type Answer, scratch, TOKEN } from './build.ts'
import type { Scope } from './netns.ts'

export interface Early {
  agent: Agent
  plane: FakePlane
  /** Lets the data plane open. */
  open(): void
  call(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<Answer>
}

export interface EarlyOptions extends Pick<BuildOptions, 'extraAreas' | 'only'> {
  stateDir?: string
  /** Configuration set before the start. */
  config?: Record<string, string>
}

/** An agent that was assembled; its plane opens when the test says so. */
export async function early(
  t: Scope,
  { stateDir = scratch(t), config = {}, ...options }: EarlyOptions = {},
): Promise<Early> {
  openOverrides(`${stateDir}/overrides.json`).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
    Object.assign(content.config, config)
  })
  const plane = fakePlane({ classifier: true })
  let open: (plane: FakePlane) => void = () => {}
  const opening = new Promise<FakePlane>((resolve) => {
    open = resolve
  })
  const agent = await assemble({
    stateDir,
    configFile: `${stateDir}/none.json`,
    environment: {},
    log: pino({ level: 'silent' }),
    openPlane: () => opening,
    clock: () => performance.now(),
    ...options,
  })
  t.teardown(() => agent.close())
  return {
    agent,
    plane,
    open: () => open(plane),
    async call(method, url, payload, headers = {}) {
      const answer = await agent.app.inject({
        method,
        url,
        headers: { authorization: `Bearer ${TOKEN}`, ...headers },
        ...(payload && { payload }),
      })
      const isJson = String(answer.headers['content-type']).startsWith('application/json')
      return {
        status: answer.statusCode,
        headers: answer.headers,
        text: answer.body,
        body: isJson ? answer.json() : {},
      }
    },
  }
}

/** Whether `work` has not ended after everything that could end it has had its turn. */
export async function waits(work: Promise<unknown>): Promise<boolean> {
  const still = Symbol('waits')
  const turns = new Promise((resolve) => setTimeout(() => resolve(still), 50))
  return (await Promise.race([work, turns])) === still
}
