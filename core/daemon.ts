/** stratumd: configuration → agent → control socket → listeners → signals. */
import { mkdirSync } from 'node:fs'
import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { addressesOf } from '../dataplane/devices.ts'
import { openKernel } from '../dataplane/kernel.ts'
import type { Agent } from './agent.ts'
import { followState } from './agent-state.ts'
import { assemble } from './app.ts'
import { enable } from './enable.ts'
import { allowedFrom, controlSocket, frrPlaces, type Places, placesFrom, responderSocket } from './environment.ts'
import type { Advice } from './health.ts'
import { type KeptSockets, openKeptSockets } from './kept-sockets.ts'
import { openLog } from './observe/log.ts'
import { quickstart } from './quickstart.ts'
import { type ServiceManager, serviceManager } from './service-manager.ts'
import { openServices, type Service } from './services.ts'
import { guardDoor } from './transport/door.ts'
import { grpcService } from './transport/grpc.ts'
import { type Listener, listenControl, listenRest } from './transport/listener.ts'
import { eventService } from './transport/stream.ts'
import { type Certificate, CertificateError, loadCertificate, watchCertificate } from './transport/tls.ts'
import { VERSION } from './version.ts'
import { watchFiles } from './watch-files.ts'

/** What is in flight when the agent is told to stop may take this long. */
const GRACE_MS = 5000

/** Runs until a signal ends it. `brought` is called once the kernel is brought to the store. */
export async function main(brought: () => void): Promise<void> {
  const { values } = parseArgs({
    options: {
      quickstart: { type: 'boolean' },
      enable: { type: 'boolean' },
      version: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) {
    process.stdout.write('stratumd [--quickstart | --enable]: the agent of a network node; see README.md\n')
    return
  }
  if (values.version) {
    process.stdout.write(`${VERSION}\n`)
    return
  }
  const environment = process.env
  const places = placesFrom(environment)
  if (values.enable) {
    // For the installer: the token that was made, if any, and nothing else.
    const { minted } = await enable(places, environment.STRATUM_API_TOKEN ?? 'auto')
    if (minted !== undefined) process.stdout.write(`${minted}\n`)
    return
  }
  const allowed = allowedFrom(environment)
  const log = openLog('info')
  // Node would open its debugger on loopback, by which every user of the node could run programs as root.
  process.on('SIGUSR1', (signal) => log.warn({ signal }, 'ignored: no debugger is opened'))
  // Its default would end the agent; what the file says by then is read in any case.
  process.on('SIGHUP', () => {})
  const manager = serviceManager(environment, (error) => log.warn({ err: error }, 'systemd cannot be told'))
  mkdirSync(places.runDir, { recursive: true, mode: 0o755 })
  const first = values.quickstart ? quickstart.prepare(places) : undefined

  const agent = await assemble({
    ...places,
    environment,
    log,
    openPlane: (options) =>
      openKernel({
        ...options,
        bpfDir: places.bpfDir,
        responderSocket: responderSocket(places),
        frr: frrPlaces(places),
        ...allowed,
      }),
  })
  // Whoever asks from here on is answered from the store, or waits (core/stages.ts).
  const kept = openKeptSockets(manager, environment)
  const control = await listenControl(agent.app.routing.bind(agent.app), controlSocket(places), kept.under('control'))
  const stopWatching = [followConfiguration(agent, places)]
  const stop = openStop({ agent, manager, control, stopWatching })
  // The first start waits here for the data plane, to whose addresses its certificate is made out.
  stopWatching.push(await openNetwork(agent, places, kept))
  await agent.start()
  brought()
  stop.sayStopping = await followState(agent)
  log.info(
    {
      version: agent.version,
      control: control.where,
      services: agent.services.status(),
      areas: agent.states.all(),
    },
    'ready',
  )
  manager.ready()
  log.level = agent.config.text('log_level')
  await quickstart.finish(agent, first, places)
}

interface Stopping {
  agent: Agent
  manager: ServiceManager
  control: Listener
  stopWatching: readonly (() => void)[]
}

/** Ends the agent at SIGTERM and SIGINT: what is in flight is answered, and the data plane stays as it is. */
function openStop({ agent, manager, control, stopWatching }: Stopping): { sayStopping?: () => Promise<void> } {
  const { log } = agent.app
  const told: { sayStopping?: () => Promise<void> } = {}
  let stopping = false

  async function close(): Promise<void> {
    for (const stop of stopWatching) stop()
    agent.stages.stop()
    await told.sayStopping?.()
    agent.tails.close()
    await Promise.all([agent.services.close(GRACE_MS), control.close(GRACE_MS)])
    // An agent that has not started ends as if it were killed: waiting for its first pass would keep the next one from beginning.
    if (agent.stages.doing() === undefined) await agent.close()
  }

  function stop(signal: string): void {
    if (stopping) return
    stopping = true
    log.info({ signal }, 'stopping; the data plane stays as it is')
    manager.stopping()
    close().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, 'stopping failed')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  return told
}

async function openNetwork(agent: Agent, { stateDir }: Places, kept: KeptSockets): Promise<() => void> {
  const { config, credentials, overrides, app } = agent
  const rest: Service = {
    name: 'rest',
    listen: (certificate) =>
      listenRest(app.routing.bind(app), {
        ...certificate,
        address: config.text('api_bind_address'),
        port: config.int('api_port'),
        guard: (server) => guardDoor(server, agent),
        keep: kept.under('rest'),
      }),
  }
  const certificate = await certificateFor(agent, stateDir)
  for (const problem of agent.ignored()) app.log.error({ problem }, 'a setting is ignored')
  agent.services = openServices(
    [rest, grpcService(agent, kept.under('grpc')), eventService(agent, kept.under('events'))],
    {
      tokenAtStart: credentials.tokenHash !== undefined,
      tokenStored: () => overrides.read().tokenHash !== undefined,
      switchedOn: () => overrides.read().rest,
      closed: config.closed,
      certificate,
    },
    app.log,
    kept.under,
  )
  await agent.services.follow()
  kept.closeRest()
  if ('reason' in certificate) return () => {}
  agent.publicKey = () => certificate.spkiPem
  return watchCertificate(
    certificate,
    (next) => {
      agent.publicKey = () => next.spkiPem
      agent.services.useCertificate(next)
    },
    {
      onProblem: (problem) =>
        caution(agent, 'certificate', {
          what: `${(problem as Error).message}; the former one stays in use`,
          remedy: 'put a certificate and its key there that can be used; they are taken by themselves',
        }),
      onUsable: () => caution(agent, 'certificate', undefined),
    },
  )
}

/** Takes the panel's file into force whenever it changes; a broken one changes nothing, and is told. */
function followConfiguration(agent: Agent, { configFile }: Places): () => void {
  const reload = () => {
    agent.config
      .reload()
      .catch((error: unknown) => agent.app.log.error({ err: error }, 'the configuration could not be put into force'))
    const what = agent.config.fileProblem()
    const remedy = `correct ${configFile}; it is taken by itself`
    caution(agent, 'config', what === undefined ? undefined : { what, remedy })
  }
  process.on('SIGHUP', reload)
  return watchFiles([configFile], reload, { intervalMs: 1000, debounceMs: 200 })
}

/** Notes what should be put right, and logs it once; undefined: it is. */
function caution({ cautions, app }: Agent, about: string, problem: Advice | undefined): void {
  if (cautions.get(about)?.what === problem?.what) return
  if (problem === undefined) cautions.delete(about)
  else cautions.set(about, problem)
  if (problem === undefined) app.log.info({ about }, 'what was amiss has been put right')
  else app.log.error({ about, problem: problem.what }, 'something should be put right')
}

async function certificateFor(agent: Agent, stateDir: string): Promise<Certificate | { reason: string }> {
  const { config, app, now } = agent
  // A certificate without them serves whoever calls the node by its name: better than no certificate.
  const addresses = () =>
    agent
      .opened()
      .then(() => addressesOf(agent.plane.devices))
      .catch((error: unknown) => {
        app.log.error({ err: error }, 'the addresses of this node cannot be read: a new certificate names none')
        return []
      })
  try {
    return await loadCertificate({
      certPath: config.text('tls_cert'),
      keyPath: config.text('tls_key'),
      stateDir,
      nodeName: hostname(),
      addresses,
      now: now(),
    })
  } catch (error) {
    const reason = error instanceof CertificateError ? error.message : `it cannot be made: ${(error as Error).message}`
    app.log.error({ err: error, reason }, 'no certificate: the network services stay off')
    return { reason }
  }
}
