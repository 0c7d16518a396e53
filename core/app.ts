/**
 * The composition root: everything long-lived is made here, and the order of the lines is the architecture. What can answer
 * from the store comes first (`assemble`); the data plane, which takes longer, is opened at `start`, while daemon.ts listens.
 */
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { KernelOptions } from '../dataplane/kernel.ts'
import type { Plane } from '../dataplane/plane.ts'
import type { Agent } from './agent.ts'
import { type AreaContext, type AreaPlugin, type Stop, startArea } from './area.ts'
import { areaStates, chosenPlugins, inOrder, neededBy, turnOffUnsupported } from './areas.ts'
import { tryAgain } from './errors.ts'
import type { Credentials } from './gates/bearer.ts'
import { openBlockNews } from './gates/block-news.ts'
import { GATES, openGates } from './gates/index.ts'
import { type Advice, type Health, openHealth } from './health.ts'
import { hardwareId } from './licence/hardware.ts'
import { openLicence } from './licence/installed.ts'
import { openLicenceNews } from './licence/news.ts'
import { agentReadings } from './observe/agent.ts'
import { watchEventLoop } from './observe/loop.ts'
import { openMetrics } from './observe/metrics.ts'
import { watchPlane } from './observe/plane.ts'
import { sourceOf } from './observe/reading.ts'
import { openOperatorKeys } from './operator-keys.ts'
import { planeToCome } from './plane-to-come.ts'
import { collectionsOf, type Replicator } from './replication.ts'
import { NO_SERVICES } from './services.ts'
import { openSettings } from './settings.ts'
import { openStages } from './stages.ts'
import { openStart } from './start.ts'
import { openAnnouncer } from './state/announce.ts'
import { declaredEvents } from './state/core-events.ts'
import { openDrift } from './state/drift.ts'
import { openOutbox } from './state/events.ts'
import { lockState } from './state/lock.ts'
import { loadMarks, storeMarks } from './state/marks.ts'
import { openPipeline } from './state/mutate.ts'
import { openOverridesAnyhow } from './state/overrides.ts'
import { openQueue } from './state/queue.ts'
import { openStore, type Store } from './state/store.ts'
import { watchStore } from './state/watched.ts'
import { openTenancy } from './tenancy.ts'
import { mountAreas } from './transport/areas.ts'
import { mountControl } from './transport/control.ts'
import { addConventions, openServer } from './transport/conventions.ts'
import { openElsewhere } from './transport/elsewhere.ts'
import { openTails } from './transport/tail.ts'
import { waitForStart } from './transport/until-started.ts'
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

const PLUGINS = join(import.meta.dirname, '..', 'plugins')

/** An agent that has started. */
export async function build(options: BuildOptions): Promise<Agent> {
  const agent = await assemble(options)
  await agent.start()
  return agent
}

/** An agent that answers from its store, and waits for `start` with everything else. */
export async function assemble(options: BuildOptions): Promise<Agent> {
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
  const { plane, arrived } = planeToCome()
  const stages = openStages()
  const queue = openQueue()
  // Some go when it is known what the data plane can do.
  const enabled = new Map(areas.filter(({ name }) => !states.reasonOff(name)).map((area) => [area.name, area]))
  openTenancy(store, enabled)

  const outbox = openOutbox(store.write, store.read, () => config.int('max_events'), now, metrics.events.written)
  const members: AreaContext['members'] = new Set()
  const elsewhere = openElsewhere({ config, gates: () => gates, app: () => app })
  const ailments = new Map<string, Advice>()
  const cautions: Health['cautions'] = new Map()
  let collections: AreaContext['collections'] = new Map()
  let replicator: Replicator | undefined
  const contextOf = (area: string): AreaContext => ({
    log: log.child({ area }),
    config,
    stateDir,
    plane,
    read: store.read,
    now,
    mutate: (origin, rule) => agent.pipeline.mutate(area, origin, rule),
    adopt: (origin, rule) => agent.pipeline.adopt(area, origin, rule),
    exclusively: queue.exclusively,
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
    exclusively: queue.exclusively,
    announce: (origin, drafts) => announce(origin, drafts),
    onPass: metrics.pass,
    troubles,
    clock: options.clock,
  })
  config.onChange((key) => {
    const rendering = [...enabled.values()].filter((area) => area.rendersFrom?.includes(key)).map(({ name }) => name)
    // What is set before the plane is open, the boot renders from.
    if (rendering.length === 0 || !stages.isMet('plane')) return undefined
    return queue.exclusively(() => drift.bring('configuration', rendering))
  })

  const licence = openLicence({
    file: join(stateDir, 'license.json'),
    trustedKeys: () => config.list('license_trusted_keys'),
    evaluationKey: join(stateDir, 'evaluation.pem'),
    now,
    hardwareId: hardwareId(),
    loadMarks: () => loadMarks(store.read),
    saveMarks: (marks) => queue.exclusively(async () => store.during(() => storeMarks(store.write, marks))),
  })
  config.onChange((key) => key === 'license_trusted_keys' && licence.reload())

  const operatorKeys = openOperatorKeys(store.read)
  const tokenHash = overrides.read().tokenHash
  const credentials: Credentials = {
    tokenHash: tokenHash === undefined ? undefined : Buffer.from(tokenHash, 'hex'),
    keys: new Map([['ok', operatorKeys.resolve]]),
  }
  const announce = openAnnouncer({ store, outbox, queue })
  const blockNews = openBlockNews(announce, log)
  const gates = openGates({
    config,
    credentials,
    licence: licence.view,
    states,
    now: () => now().getTime(),
    counts: metrics.gates,
    blocked: blockNews.tell,
    starting: stages.doing,
    peers: elsewhere.peers,
  })

  const app = openServer(log, () => gates, metrics.http.unrouted)
  const loop = watchEventLoop()
  const stops: Stop[] = []
  let closing = false
  const { opened, start, abandon } = openStart({
    queue,
    stages,
    async open() {
      const real = await options.openPlane({
        ...neededBy(areas, disabled),
        onProblem: (error) => log.error({ err: error }, 'the data plane has a problem'),
        onLoss: () => void queue.exclusively(() => drift.mend(false)),
        lock: lock.fd,
      })
      // Whoever closed the agent has not waited for it.
      if (closing) return await real.close()
      arrived(watchPlane(real, metrics.plane))
      await followUplink(plane, config, log)
      if (closing) return
      turnOffUnsupported(areas, plane, states)
      for (const { name } of areas) if (states.reasonOff(name) !== undefined) enabled.delete(name)
      collections = collectionsOf(enabled.values())
      agent.pipeline = openPipeline({
        ...{ queue, store, plane, config, outbox, log, areas: enabled, counts: metrics.pipeline },
        ...{ ground: drift.ground, repair: drift.mend, replicator: () => replicator },
      })
      for (const { name, metrics: own = [] } of enabled.values()) metrics.add(sourceOf(name, own, contextOf(name)))
      for (const area of areas) replicator = area.replicator?.(contextOf(area.name)) ?? replicator
    },
    // A pass that failed has been logged, is shown, and is tried again.
    bring: () => drift.bring('boot').catch(() => {}),
    async run() {
      for (const area of enabled.values()) {
        if (closing) return
        // An area that cannot start costs what it does, not the node.
        const stop = await startArea(area, contextOf(area.name))
        if (stop) stops.push(stop)
      }
      if (options.clock === undefined && !closing) stops.push(drift.start())
    },
  })
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
    pipeline: { ...queue, mutate: notYet, adopt: notYet },
    plane,
    members,
    elsewhere,
    drift,
    metrics,
    now,
    startedAt: now(),
    version: VERSION,
    ...openHealth({ kernel: troubles, ailments, cautions, store, plane, states, stages }),
    stages,
    start,
    opened,
    announce,
    licenceNews: openLicenceNews({ licence, announce, read: store.read, log }),
    routes: [],
    events: declaredEvents(areas),
    tails: openTails({ outbox, version: VERSION, log, counts: metrics.events }),
    publicKey: () => undefined,
    services: NO_SERVICES,
    async close() {
      closing = true
      agent.tails.close()
      stages.stop()
      await abandon()
      blockNews.close()
      for (const stop of stops.reverse()) await stop()
      await app.close()
      loop.close()
      await queue.exclusively(() => plane.close())
      store.close()
      lock.release()
    },
  }
  app.decorate('agent', agent)
  app.addHook('onRoute', (route) => void agent.routes.push(route))
  waitForStart(app, stages, gates.foresee)
  gates.mount(app)
  addConventions(app)
  metrics.http.mount(app)
  metrics.add({ name: 'core', prefix: 'stratum_', metrics: agentReadings, context: { agent, loop } })
  await mountAreas(app, PLUGINS, { areas, plugins, extra: options.extraAreas })
  await mountControl(app, agent, [...enabled.values()])
  await app.ready()
  return agent
}

async function notYet(): Promise<never> {
  throw tryAgain('the agent is starting: it opens the data plane')
}
