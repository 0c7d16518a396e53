/** The agent: everything long-lived, as those see it who are given all of it (core/app.ts makes it). */
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { AreaContext } from './area.ts'
import type { AreaStates } from './areas.ts'
import type { MutableConfig } from './config.ts'
import type { Credentials } from './gates/bearer.ts'
import type { Gates } from './gates/index.ts'
import type { Health } from './health.ts'
import type { InstalledLicence } from './licence/installed.ts'
import type { LicenceNews } from './licence/news.ts'
import type { Metrics } from './observe/metrics.ts'
import type { OperatorKeys } from './operator-keys.ts'
import type { Services } from './services.ts'
import type { Settings } from './settings.ts'
import type { Stages } from './stages.ts'
import type { Start } from './start.ts'
import type { Announce } from './state/announce.ts'
import type { DeclaredEvent } from './state/core-events.ts'
import type { Drift } from './state/drift.ts'
import type { Outbox } from './state/events.ts'
import type { Pipeline } from './state/mutate.ts'
import type { Overrides } from './state/overrides.ts'
import type { WatchedStore } from './state/watched.ts'
import type { Tails } from './transport/tail.ts'

export interface Agent
  extends Health,
    Omit<Start, 'abandon'>,
    Pick<AreaContext, 'plane' | 'now' | 'members' | 'elsewhere'> {
  app: FastifyInstance
  config: MutableConfig
  /** Settings that are stored and not followed, each with the way out. */
  ignored: Settings['ignored']
  overrides: Overrides
  credentials: Credentials
  operatorKeys: OperatorKeys
  licence: InstalledLicence
  states: AreaStates
  gates: Gates
  store: WatchedStore
  outbox: Outbox
  pipeline: Pipeline
  drift: Drift
  metrics: Metrics
  startedAt: Date
  version: string
  announce: Announce
  licenceNews: LicenceNews
  /** Every registered route, for the documents. */
  routes: RouteOptions[]
  /** Every event type that may be sent, for the documents. */
  events: readonly DeclaredEvent[]
  stages: Stages
  /** Readers of the event stream over the control socket. */
  tails: Tails
  /** SubjectPublicKeyInfo of the certificate in use, PEM; set by whoever loads it. */
  publicKey: () => string | undefined
  /** The listeners; set by whoever opens them. */
  services: Services
  close(): Promise<void>
}

declare module 'fastify' {
  interface FastifyInstance {
    agent: Agent
  }
}
