/**
 * The contract of an area: the one file of the core that an area's author must read.
 *
 * An area is a folder `plugins/<name>/` whose `index.ts` exports `defineArea(import.meta.url, {...})`. The core finds it,
 * migrates its tables, collects its paths, configuration keys, skeleton and verbs, and mounts its routes below /api/v1.
 *
 * Routes read and change through three functions of `core/transport/`: `sendList`, `sendOne` (one thing and its ETag) and
 * `carryOut` (a change). One function of the area says what a thing looks like, `(db) => object`: its GET sends it, and the
 * changes of that thing give it to `carryOut`, which holds a client's If-Match against it inside the transaction (D18).
 */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify'
import fp from 'fastify-plugin'
import type { TSchema } from 'typebox'
import type { PortKind } from '../dataplane/bpf/port/entries.ts'
import type { Entry } from '../dataplane/entry.ts'
import type { Plane } from '../dataplane/plane.ts'
import type { Config, ConfigKeys } from './config.ts'
import type { KeyResolver } from './gates/bearer.ts'
import type { Lockout } from './gates/lockout.ts'
import type { Advice } from './health.ts'
import type { LicenceView } from './licence/state.ts'
import type { Collection, Replicator } from './replication.ts'
import type { Need } from './stages.ts'
import type { Origin } from './state/events.ts'
import type { Admits, Holdings } from './tenancy.ts'
import type { Elsewhere } from './transport/elsewhere.ts'

export type Db = BetterSQLite3Database
export type TypedApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** One thing of an area whose kernel entries follow from the store: `{area: 'firewall', id: 'rule/12'}`. */
export interface Ref {
  area: string
  id: string
}

/** An event to be: `type` is one that the area declares, `data` the object as REST returns it (a deletion: its id). */
export interface EventDraft {
  type: string
  /** The area that declares the type, where that is not the one whose change this is. */
  area?: string
  resource: string
  data: unknown
  /** Who caused it, where several changes of others are adopted as one. */
  origin?: Origin
}

/** What a domain rule returns. Nothing of it counts until the kernel took it and the transaction is committed. */
export interface Change<T> {
  result: T
  /** Everything whose kernel entries may differ now. */
  touch: Ref[]
  events: EventDraft[]
}
export type Rule<T> = (tx: Db) => Change<T> | Promise<Change<T>>

export interface Mutation<T> {
  result: T
  /** Sequence number of the last event, for X-Event-Id. */
  eventId?: number
}

/** Rows → kernel entries. Pure; `one` must agree with `all` entry by entry. */
export interface Desired {
  all(db: Db, config: Config): Iterable<Entry>
  one(db: Db, id: string, config: Config): Entry[]
}
/** The same, for an area that renders otherwise by what this node can do: given the kinds of entries that it carries out. */
export type DesiredBy = (kinds: Plane['kinds']) => Desired

/** Another member of the cluster that this node is in, and what it calls here: TCP ports of one address. */
export interface Member {
  id: string
  address: string
  calls: { address: string; ports: readonly number[] }
}

/** What an area's timers and sessions may use. */
export interface AreaContext {
  log: FastifyBaseLogger
  config: Config
  /** Where an area may keep files, in a folder of its own. */
  stateDir: string
  plane: Plane
  /** Read-only connection. */
  read: Db
  now: () => Date
  mutate<T>(origin: Origin, rule: Rule<T>): Promise<Mutation<T>>
  /** Carries out what another member of the cluster has done already (core/replication.ts): only the store can refuse it. */
  adopt<T>(origin: Origin, rule: Rule<T>): Promise<Mutation<T>>
  /** Runs `work` while no mutation runs. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  /** What the areas of this node replicate, by name, each after what it rests on. */
  collections: ReadonlyMap<string, Collection>
  /** Areas that would replicate rows and are off on this node. */
  unreplicated: readonly string[]
  /** Source addresses that are blocked for failed authentication. */
  lockout: Pick<Lockout, 'blocks' | 'blockCount' | 'impose' | 'lift' | 'onBlock' | 'onUnblock'>
  /** The licence now. */
  licence(): LicenceView
  /** Runs after every commit; returns how to stop that. */
  onCommit(listener: () => void): () => void
  /** Who finds the callers of keys `<kind>_<id>_<secret>`, by kind. An area that keeps some adds itself when it starts. */
  keys: Map<string, KeyResolver>
  /** Who tells of the other members of this node's cluster. An area that keeps some adds itself when it starts. */
  members: Set<(db: Db) => Iterable<Member>>
  /** Calls for other members of the cluster, and from them. */
  elsewhere: Elsewhere
  /**
   * Says why the area does not do its work, though it is on, and what to do; undefined once it does. Told by gRPC health, status and
   * doctor.
   */
  ails(why: Advice | undefined): void
  /** Says what the operator should put right though the area does its work; undefined once that is done. Told by status and doctor. */
  cautions(what: Advice | undefined): void
}
export type Stop = () => Promise<void> | void

/** The static part of an area in table `inet stratum`; see dataplane/nft/skeleton.ts. */
export interface NftDeclaration {
  skeleton: string
  lists?: readonly string[]
  chains?: readonly string[]
  sets?: readonly string[]
}

/** One value of a metric, and its labels: all that are declared, no others. */
export interface Sample {
  value: number
  labels?: Readonly<Record<string, string>>
}

/** A metric that is read when somebody asks for it, and at no other time. Names and units are those of Prometheus. */
export interface Reading<Context> {
  /** What follows `stratum_<area>_`: snake_case, base units (`_seconds`, `_bytes`); a counter ends in `_total`. */
  name: string
  /** Tells an operator what the value means. */
  help: string
  type: 'gauge' | 'counter'
  /** Their values must be few: never an address or text from outside, an id only where a setting bounds how many are shown. */
  labels?: readonly string[]
  /** Must be cheap: a count by an index, no walk. Should it throw, the area is left out of this answer, and that is counted. */
  read(context: Context): Iterable<Sample> | Promise<Iterable<Sample>>
}
export type AreaMetric = Reading<AreaContext>

/** Paths of an area that need more of the node than the area does. */
export interface Part {
  /** Text of its 503. */
  name: string
  /** Paths below /api/v1; no prefix of the area covers them. */
  prefixes: readonly string[]
  /** Facilities of the data plane. One that no node has stands for what this agent does not do; then there are no routes. */
  requires: readonly string[]
}

export interface Area {
  /** Log child, metric subsystem, table prefix, gRPC health name, and the text of its 503. */
  name: string
  /** What it is for, in a sentence: how the OpenAPI document describes its tag. Only areas of tests have none. */
  summary?: string
  /** Paths below /api/v1 that answer 503 when the area is off, unknown ones below them included. */
  prefixes: readonly string[]
  /** Areas that must be loaded before this one. */
  needs?: readonly string[]
  /**
   * For entries that follow from what another area stores: its name, which is one of `needs`, to the ids of this area's refs
   * that may render otherwise when a change touches its ref `id`. Asked of the rows before the change and after it.
   */
  follows?: Readonly<Record<string, (db: Db, id: string) => Iterable<string>>>
  /**
   * What this area has to say beside an answer that makes a thing of another: its name, which is one of `needs`, to sentences about the thing
   * with an id. Asked by that one (core/warnings.ts), once the change is committed; each says what to do.
   */
  warnings?: Readonly<Record<string, (db: Db, id: string) => readonly string[]>>
  /** Event type → schema of its data. */
  events?: Record<string, TSchema>
  /** Configuration keys that the area brings. */
  config?: ConfigKeys
  /** Configuration keys whose change re-renders the area's entries at once. */
  rendersFrom?: readonly string[]
  nft?: NftDeclaration
  /** For areas with links, addresses, routes and the like: the number that marks theirs in the kernel, unique, from 200. */
  netlink?: { owner: number }
  /** Kinds of entries of the programs on the workload ports that this area alone renders. */
  port?: readonly PortKind[]
  /** Facilities of the data plane without which the area is off (503). */
  requires?: readonly string[]
  /** What alone answers 503 where this node lacks what it needs, while the area does its work. */
  parts?: readonly Part[]
  /** For the area that keeps the tenants: what each of them may have. All others ask `admit` (core/tenancy.ts). */
  admits?: Admits
  /** What the area keeps for tenants: how much it is, and how it goes with the tenant. */
  holdings?: Holdings
  /**
   * Rows that all members of a cluster hold (core/replication.ts). A rule that changes them may run several times, each time
   * on what the store holds then: it has no effect but on `tx`, and draws nothing that must be drawn once.
   */
  replicates?: readonly Collection[]
  /**
   * For the area that keeps the cluster: by whom such rows are replicated. Asked once, before the kernel is brought to the store, also while
   * the area is off and never started: while this node is in a cluster no such row may change without it.
   */
  replicator?(context: AreaContext): Replicator
  routes(app: TypedApp): void
  /** Routes for the local CLI only, below /control/v1/<name>. Changes are refused while the licence is frozen. */
  control?(app: TypedApp): void
  desired?: Desired | DesiredBy
  /** What `GET /metrics` shows of the area; each stands in the table of its README. */
  metrics?: readonly AreaMetric[]
  /** Sessions and timers. Stopped in reverse order; must leave the kernel as it is. */
  start?(context: AreaContext): Promise<Stop>
}

/** An area as the core holds it. */
export interface LoadedArea extends Area {
  dir: string
}

export interface AreaPlugin {
  (app: FastifyInstance): Promise<void>
  area: LoadedArea
}

/**
 * Makes the Fastify plugin of an area. `url` is the `import.meta.url` of its index, which tells where its folder is.
 * Encapsulated, so that an area's hooks and decorators stay its own.
 */
export function defineArea(url: string, area: Area): AreaPlugin {
  const plugin = async (app: FastifyInstance) => {
    area.routes(app.withTypeProvider<TypeBoxTypeProvider>())
  }
  const wrapped = fp(plugin, {
    name: area.name,
    fastify: '5.x',
    encapsulate: true,
    ...(area.needs && { dependencies: [...area.needs] }),
  })
  return Object.assign(wrapped, { area: { ...area, dir: dirname(fileURLToPath(url)) } })
}

/** Starts an area. What fails is logged, told as an ailment of the area, and nothing else. */
export async function startArea(area: Area, context: AreaContext): Promise<Stop | undefined> {
  try {
    return await area.start?.(context)
  } catch (error) {
    context.log.error({ err: error }, 'the area could not start')
    context.ails({
      what: `${area.name} could not start: ${(error as Error).message}`,
      remedy: 'put that right, then systemctl restart stratumd; journalctl -u stratumd tells where it failed',
    })
    return undefined
  }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answers without a credential. */
    public?: boolean
    /** Who may call: the operator only (default), or a tenant's key for its own tenant as well. */
    access?: 'operator' | 'tenant'
    /** An unknown key in the body is a 400 that names it, instead of an X-Ignored-Fields header. */
    strict?: boolean
    /** A change below /control that a frozen licence refuses; below /api/v1 all are. */
    frozen?: boolean
    /** A read that the store alone cannot answer: what must be there first. While the agent starts, the call waits for it. */
    after?: Need
    /** A change that needs neither the kernel nor an area: it is made while the agent starts. */
    atOnce?: boolean
    /** Tells who talks to whom: it is in no support bundle. */
    personal?: boolean
    /** Answers one thing that is measured, not stored: it has no ETag. */
    volatile?: boolean
  }
  interface FastifySchema {
    summary?: string
  }
}
