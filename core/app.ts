/**
 * The composition root: everything long-lived is made here, and the order of the lines is the architecture.
 * What listens on the network is opened by main.ts once this is done.
 */
import { join } from 'node:path'
import autoload from '@fastify/autoload'
import type { FastifyBaseLogger, FastifyInstance, RouteOptions } from 'fastify'
import type { Skeleton } from '../dataplane/nft/driver.ts'
import type { Plane } from '../dataplane/plane.ts'
import type { AreaContext, AreaPlugin, LoadedArea, Stop } from './area.ts'
import { type AreaStates, areaStates, checkDisabled, discoverAreas, inOrder } from './areas.ts'
import { type MutableConfig, openConfig } from './config.ts'
import type { Credentials } from './gates/bearer.ts'
import { type Gates, openGates } from './gates/index.ts'
import { CORE_KEYS } from './keys.ts'
import { hardwareId } from './licence/hardware.ts'
import { type InstalledLicence, openLicence } from './licence/installed.ts'
import { type OperatorKeys, openOperatorKeys } from './operator-keys.ts'
import { NO_SERVICES, type Services } from './services.ts'
import { type Outbox, openOutbox } from './state/events.ts'
import { lockState } from './state/lock.ts'
import { loadMarks, storeMarks } from './state/marks.ts'
import { openPipeline, type Pipeline } from './state/mutate.ts'
import { type Overrides, openOverrides } from './state/overrides.ts'
import { reconcile } from './state/reconcile.ts'
import { openStore, type Store } from './state/store.ts'
import { mountControl } from './transport/control.ts'
import { addConventions, openServer } from './transport/conventions.ts'
import { VERSION } from './version.ts'

export interface BuildOptions {
  stateDir: string
  /** The panel-synced JSON file. */
  configFile: string
  environment: Readonly<Record<string, string | undefined>>
  log: FastifyBaseLogger
  /** `lock` is the file that processes of the plane must keep open while they touch the kernel. */
  openPlane: (skeletons: readonly Skeleton[], lock: number) => Promise<Plane>
  /** Test seams: the clock, the store, areas that have no folder, and the names of those that shall be loaded. */
  now?: () => Date
  openStore?: (stateDir: string) => Store
  extraAreas?: readonly AreaPlugin[]
  only?: readonly string[]
}

export interface Agent {
  app: FastifyInstance
  config: MutableConfig
  overrides: Overrides
  credentials: Credentials
  operatorKeys: OperatorKeys
  licence: InstalledLicence
  states: AreaStates
  gates: Gates
  store: Store
  outbox: Outbox
  pipeline: Pipeline
  plane: Plane
  now: () => Date
  startedAt: Date
  version: string
  /** What is amiss with the node as a whole; empty while all is well. */
  troubles(): string[]
  /** Every registered route, for the documents. */
  routes: RouteOptions[]
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
  const { stateDir, log } = options
  const now = options.now ?? (() => new Date())
  const lock = await lockState(stateDir)
  const overrides = openOverrides(join(stateDir, 'overrides.json'))

  const plugins = await chosenPlugins(options)
  const areas = inOrder(plugins.map(({ area }) => area))
  const config = openConfig(Object.assign({}, CORE_KEYS, ...areas.map((area) => area.config ?? {})), {
    file: options.configFile,
    overrides: () => overrides.read().config,
    environment: options.environment,
  })
  const disabled = new Set(config.list('disabled_areas'))
  checkDisabled(areas, disabled)
  const states = areaStates(areas)
  for (const { name } of areas) if (disabled.has(name)) states.turnOff(name, 'disabled by disabled_areas')

  const store = (options.openStore ?? openStore)(stateDir)
  store.migrate('core', join(import.meta.dirname, 'state'))
  for (const area of areas) if (!disabled.has(area.name)) store.migrate(area.name, area.dir)

  const plane = await options.openPlane(
    areas.flatMap((area) => (disabled.has(area.name) ? [] : skeletonOf(area))),
    lock.fd,
  )
  turnOffUnsupported(areas, plane, states)
  const enabled = new Map(areas.filter(({ name }) => !states.reasonOff(name)).map((area) => [area.name, area]))

  const outbox = openOutbox(store.write, store.read, () => config.int('max_events'), now)
  const contextOf = (area: string): AreaContext => ({
    log: log.child({ area }),
    config,
    plane,
    read: store.read,
    now,
    mutate: (origin, rule) => pipeline.mutate(area, origin, rule),
    onCommit: (listener) => outbox.onWake(listener),
  })
  const trouble = new Map<string, string>()
  const bring = async () => {
    try {
      const repaired = await reconcile({ plane, read: store.read, config, areas: enabled })
      trouble.delete('reconcile')
      const done = repaired.added + repaired.changed + repaired.removed > 0
      if (done) log.info(repaired, 'kernel brought to the store')
      return done
    } catch (error) {
      trouble.set('reconcile', `the kernel does not hold what is stored: ${(error as Error).message}`)
      throw error
    }
  }
  const pipeline = openPipeline({
    store,
    plane,
    config,
    outbox,
    areas: enabled,
    log,
    ground: async () => {
      if (trouble.size > 0) await bring()
    },
    repair: () =>
      bring().catch((error: unknown) => {
        log.error({ err: error }, 'repair failed')
        return false
      }),
  })
  config.onChange((key) => {
    if (![...enabled.values()].some((area) => area.rendersFrom?.includes(key))) return undefined
    return pipeline.exclusively(bring)
  })

  const licence = openLicence({
    file: join(stateDir, 'license.json'),
    trustedKeys: () => config.list('license_trusted_keys'),
    evaluationKey: join(stateDir, 'evaluation.pem'),
    now,
    hardwareId: hardwareId(),
    loadMarks: () => loadMarks(store.read),
    saveMarks: (marks) => pipeline.exclusively(async () => storeMarks(store.write, marks)),
  })
  config.onChange((key) => key === 'license_trusted_keys' && licence.reload())

  const operatorKeys = openOperatorKeys(store.read)
  const tokenHash = overrides.read().tokenHash
  const credentials: Credentials = {
    tokenHash: tokenHash === undefined ? undefined : Buffer.from(tokenHash, 'hex'),
    keys: new Map([['ok', operatorKeys.resolve]]),
  }
  const gates = openGates({ config, credentials, licence: licence.view, states, now: () => now().getTime() })

  const app = openServer(log, () => gates)
  const stops: Stop[] = []
  const agent: Agent = {
    app,
    config,
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
    now,
    startedAt: now(),
    version: VERSION,
    troubles: () => [...trouble.values()],
    routes: [],
    publicKey: () => undefined,
    services: NO_SERVICES,
    async close() {
      for (const stop of stops.reverse()) await stop()
      await app.close()
      await pipeline.exclusively(() => plane.close())
      store.close()
      lock.release()
    },
  }
  app.decorate('agent', agent)
  app.addHook('onRoute', (route) => void agent.routes.push(route))
  gates.mount(app)
  addConventions(app)
  await mountAreas(app, options, plugins)
  await mountControl(app, agent, [...enabled.values()])
  await app.ready()

  await pipeline.exclusively(bring).catch((error: unknown) => log.error({ err: error }, 'the first pass failed'))
  for (const area of enabled.values()) {
    const stop = await area.start?.(contextOf(area.name))
    if (stop) stops.push(stop)
  }
  return agent
}

async function chosenPlugins({ extraAreas = [], only }: BuildOptions): Promise<AreaPlugin[]> {
  const found = await discoverAreas(PLUGINS)
  return [...(only ? found.filter(({ area }) => only.includes(area.name)) : found), ...extraAreas]
}

/** Folders are mounted by autoload, which orders them by their needs; areas without a folder one by one. */
async function mountAreas(app: FastifyInstance, options: BuildOptions, plugins: readonly AreaPlugin[]): Promise<void> {
  const names = new Set(plugins.map(({ area }) => area.name))
  await app.register(autoload, {
    dir: PLUGINS,
    maxDepth: 1,
    forceESM: true,
    dirNameRoutePrefix: false,
    options: { prefix: '/api/v1' },
    matchFilter: (path: string) => {
      const name = /^\/([a-z0-9-]+)\/index\.js$/.exec(path)?.[1]
      return name !== undefined && names.has(name)
    },
  })
  for (const plugin of options.extraAreas ?? []) await app.register(plugin, { prefix: '/api/v1' })
}

function skeletonOf({ name, nft }: LoadedArea): Skeleton[] {
  if (nft === undefined) return []
  const { skeleton, lists = [], chains = [], sets = [] } = nft
  return [{ area: name, text: skeleton, lists, chains, sets }]
}

function turnOffUnsupported(areas: readonly LoadedArea[], plane: Plane, states: AreaStates): void {
  const facilities = new Map(plane.check().map((facility) => [facility.name, facility]))
  for (const area of areas) {
    if (states.reasonOff(area.name) !== undefined) continue
    const missing = area.requires?.find((name) => !facilities.get(name)?.available)
    const off = area.needs?.find((name) => states.reasonOff(name) !== undefined)
    if (missing) states.turnOff(area.name, facilities.get(missing)?.detail ?? `${missing} is not there`)
    else if (off) states.turnOff(area.name, `needs ${off}, which is off`)
  }
}
