/**
 * The composition root: everything long-lived is made here, and the order of the lines is the architecture.
 * What listens on the network is opened by main.ts once this is done.
 */
import { join } from 'node:path'
import type { FastifyBaseLogger, FastifyInstance, RouteOptions } from 'fastify'
import type { KernelOptions } from '../dataplane/kernel.ts'
import type { Plane } from '../dataplane/plane.ts'
import { type AreaContext, type AreaPlugin, type Stop, startArea } from './area.ts'
import {
  type AreaStates,
  areaStates,
  chosenPlugins,
  inOrder,
  ownersOf,
  portKindsOf,
  skeletonOf,
  turnOffUnsupported,
} from './areas.ts'
import type { MutableConfig } from './config.ts'
import type { Credentials } from './gates/bearer.ts'
import { openBlockNews } from './gates/block-news.ts'
import { GATES, type Gates, openGates } from './gates/index.ts'
import { type Advice, type Health, openHealth } from './health.ts'
import { hardwareId } from './licence/hardware.ts'
import { type InstalledLicence, openLicence } from './licence/installed.ts'
import { type LicenceNews, openLicenceNews } from './licence/news.ts'
import { agentReadings } from './observe/agent.ts'
import { watchEventLoop } from './observe/loop.ts'
import { type Metrics, openMetrics } from './observe/metrics.ts'
import { watchPlane } from './observe/plane.ts'
import { sourceOf } from './observe/reading.ts'
import { type OperatorKeys, openOperatorKeys } from './operator-keys.ts'
import { collectionsOf, type Replicator } from './replication.ts'
import { NO_SERVICES, type Services } from './services.ts'
import { openSettings, type Settings } from './settings.ts'
import { type Announce, openAnnouncer } from './state/announce.ts'
import { type DeclaredEvent, declaredEvents } from './state/core-events.ts'
import { type Drift, openDrift } from './state/drift.ts'
import { type Outbox, openOutbox } from './state/events.ts'
import { lockState } from './state/lock.ts'
import { loadMarks, storeMarks } from './state/marks.ts'
import { openPipeline, type Pipeline } from './state/mutate.ts'
import { type Overrides, openOverridesAnyhow } from './state/overrides.ts'
import { openStore, type Store } from './state/store.ts'
import { type WatchedStore, watchStore } from './state/watched.ts'
import { mountAreas } from './transport/areas.ts'
import { mountControl } from './transport/control.ts'
import { addConventions, openServer } from './transport/conventions.ts'
import { openElsewhere } from './transport/elsewhere.ts'
import { openTails, type Tails } from './transport/tail.ts'
import { followUplink } from './uplink.ts'
import { VERSION } from './version.ts'

export interface BuildOptions {
  stateDir: string
  /** The panel-synced JSON file. */
  configFile: string
  environment: Readonly<Record<string, string | undefined>>
  log: FastifyBaseLogger
  /** Its `lock` is the file that processes of the plane must keep open while they touch the kernel. */
  openPlane: (
    options: Required<Omit<KernelOptions, 'bpfDir' | 'responderSocket' | 'frr' | 'classifier' | 'balancer' | 'attach'>>,
  ) => Promise<Plane>
  /** Test seams: the clock, the store, areas that have no folder, and the names of those that shall be loaded. */
  now?: () => Date
  openStore?: (stateDir: string) => Store
  extraAreas?: readonly AreaPlugin[]
  only?: readonly string[]
  /** Milliseconds that never go back; with it drift detection beats only when the test calls `drift.beat()`. */
  clock?: () => number
}

export interface Agent extends Health, Pick<AreaContext, 'plane' | 'now' | 'members' | 'elsewhere'> {
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

const PLUGINS = join(import.meta.dirname, '..', 'plugins')

export async function build(options: BuildOptions): Promise<Agent> {
  const { stateDir, log, now = () => new Date() } = options
  const lock = await lockState(stateDir)
  const overrides = openOverridesAnyhow(join(stateDir, 'overrides.json'))

  const plugins = await chosenPlugins(PLUGINS, options)
  const areas = inOrder(plugins.map(({ area }) => area))
  const { config, disabled, ignored } = openSettings(areas, { ...options, overrides })
  const states = areaStates(areas)
  for (const { name } of areas) if (disabled.has(name)) states.turnOff(name, 'disabled by disabled_areas')

  const store = watchStore((options.openStore ?? openStore)(stateDir))
  store.migrate('core', join(import.meta.dirname, 'state'))
  for (const area of areas) if (!disabled.has(area.name) || area.replicator) store.migrate(area.name, area.dir)

  const metrics = openMetrics({ areas: areas.map(({ name }) => name), gates: GATES, now, log })
  let mend: () => unknown = () => {}
  const opened = await options.openPlane({
    skeletons: areas.flatMap((area) => (disabled.has(area.name) ? [] : skeletonOf(area))),
    owners: ownersOf(areas),
    portKinds: portKindsOf(areas),
    onProblem: (error) => log.error({ err: error }, 'the data plane has a problem'),
    onLoss: () => void mend(),
    lock: lock.fd,
  })
  const plane = watchPlane(opened, metrics.plane)
  await followUplink(plane, config, log)
  turnOffUnsupported(areas, plane, states)
  const enabled = new Map(areas.filter(({ name }) => !states.reasonOff(name)).map((area) => [area.name, area]))

  const outbox = openOutbox(store.write, store.read, () => config.int('max_events'), now, metrics.events.written)
  const members: AreaContext['members'] = new Set()
  const elsewhere = openElsewhere({ config, gates: () => gates, app: () => app })
  const ailments = new Map<string, Advice>()
  const cautions: Health['cautions'] = new Map()
  const collections = collectionsOf(enabled.values())
  let replicator: Replicator | undefined
  const contextOf = (area: string): AreaContext => ({
    log: log.child({ area }),
    config,
    stateDir,
    plane,
    read: store.read,
    now,
    mutate: (origin, rule) => pipeline.mutate(area, origin, rule),
    adopt: (origin, rule) => pipeline.adopt(area, origin, rule),
    exclusively: (work) => pipeline.exclusively(work),
    collections,
    unreplicated: areas.flatMap(({ name, replicates }) => (replicates && !enabled.has(name) ? [name] : [])),
    lockout: gates.lockout,
    licence: () => licence.view(),
    onCommit: (listener) => outbox.onWake(listener),
    keys: credentials.keys,
    members,
    elsewhere,
    cautions: (what) => void (what === undefined ? cautions.delete(area) : cautions.set(area, what)),
    ails: (why) => void (why === undefined ? ailments.delete(area) : ailments.set(area, why)),
  })
  const troubles = new Map<string, string>()
  const drift = openDrift({
    plane,
    read: store.read,
    config,
    areas: enabled,
    log,
    exclusively: (work) => pipeline.exclusively(work),
    announce: (origin, drafts) => announce(origin, drafts),
    onPass: metrics.pass,
    troubles,
    clock: options.clock,
  })
  mend = () => pipeline.exclusively(() => drift.mend(false))
  const pipeline = openPipeline({
    store,
    plane,
    config,
    outbox,
    areas: enabled,
    log,
    counts: metrics.pipeline,
    ground: drift.ground,
    repair: drift.mend,
    replicator: () => replicator,
  })
  config.onChange((key) => {
    const rendering = [...enabled.values()].filter((area) => area.rendersFrom?.includes(key)).map(({ name }) => name)
    return rendering.length > 0 ? pipeline.exclusively(() => drift.bring('configuration', rendering)) : undefined
  })

  const licence = openLicence({
    file: join(stateDir, 'license.json'),
    trustedKeys: () => config.list('license_trusted_keys'),
    evaluationKey: join(stateDir, 'evaluation.pem'),
    now,
    hardwareId: hardwareId(),
    loadMarks: () => loadMarks(store.read),
    saveMarks: (marks) => pipeline.exclusively(async () => store.during(() => storeMarks(store.write, marks))),
  })
  config.onChange((key) => key === 'license_trusted_keys' && licence.reload())

  const operatorKeys = openOperatorKeys(store.read)
  const tokenHash = overrides.read().tokenHash
  const credentials: Credentials = {
    tokenHash: tokenHash === undefined ? undefined : Buffer.from(tokenHash, 'hex'),
    keys: new Map([['ok', operatorKeys.resolve]]),
  }
  const announce = openAnnouncer({ store, outbox, pipeline })
  const blockNews = openBlockNews(announce, log)
  const gates = openGates({
    config,
    credentials,
    licence: licence.view,
    states,
    now: () => now().getTime(),
    counts: metrics.gates,
    blocked: blockNews.tell,
    peers: elsewhere.peers,
  })

  const app = openServer(log, () => gates, metrics.http.unrouted)
  const loop = watchEventLoop()
  const stops: Stop[] = []
  const agent: Agent = {
    app,
    config,
    ignored,
    overrides,
    credentials,
    operatorKeys,
    licence,
    states,
    gates,
    store,
    outbox,
    pipeline,
    plane,
    members,
    elsewhere,
    drift,
    metrics,
    now,
    startedAt: now(),
    version: VERSION,
    ...openHealth({ kernel: troubles, ailments, cautions, store, plane, states }),
    announce,
    licenceNews: openLicenceNews({ licence, announce, read: store.read, log }),
    routes: [],
    events: declaredEvents(areas),
    tails: openTails({ outbox, version: VERSION, log, counts: metrics.events }),
    publicKey: () => undefined,
    services: NO_SERVICES,
    async close() {
      agent.tails.close()
      blockNews.close()
      for (const stop of stops.reverse()) await stop()
      await app.close()
      loop.close()
      await pipeline.exclusively(() => plane.close())
      store.close()
      lock.release()
    },
  }
  app.decorate('agent', agent)
  app.addHook('onRoute', (route) => void agent.routes.push(route))
  gates.mount(app)
  addConventions(app)
  metrics.http.mount(app)
  metrics.add({ name: 'core', prefix: 'stratum_', metrics: agentReadings, context: { agent, loop } })
  for (const { name, metrics: own = [] } of enabled.values()) metrics.add(sourceOf(name, own, contextOf(name)))
  await mountAreas(app, PLUGINS, { areas, plugins, extra: options.extraAreas })
  await mountControl(app, agent, [...enabled.values()])
  await app.ready()

  for (const area of areas) replicator = area.replicator?.(contextOf(area.name)) ?? replicator
  // A pass that failed has been logged, is shown, and is tried again.
  await pipeline.exclusively(() => drift.bring('boot')).catch(() => {})
  for (const area of enabled.values()) {
    // An area that cannot start costs what it does, not the node.
    const stop = await startArea(area, contextOf(area.name))
    if (stop) stops.push(stop)
  }
  if (options.clock === undefined) stops.push(drift.start())
  return agent
}
