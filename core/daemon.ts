/** stratumd: configuration → agent → control socket → listeners → signals. */
import { mkdirSync } from 'node:fs'
import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { addressesOf } from '../dataplane/devices.ts'
import { openKernel } from '../dataplane/kernel.ts'
import { followState } from './agent-state.ts'
import { type Agent, build } from './app.ts'
import { enable } from './enable.ts'
import { allowedFrom, controlSocket, frrPlaces, type Places, placesFrom, responderSocket } from './environment.ts'
import type { Advice } from './health.ts'
import { openLog } from './observe/log.ts'
import { quickstart } from './quickstart.ts'
import { serviceManager } from './service-manager.ts'
import { openServices, type Service } from './services.ts'
import { guardDoor } from './transport/door.ts'
import { grpcService } from './transport/grpc.ts'
import { listenControl, listenRest } from './transport/listener.ts'
import { eventService } from './transport/stream.ts'
import { type Certificate, CertificateError, loadCertificate, watchCertificate } from './transport/tls.ts'
import { VERSION } from './version.ts'
import { watchFiles } from './watch-files.ts'

/** What is in flight when the agent is told to stop may take this long. */
const GRACE_MS = 5000

/** Runs until a signal ends it. `brought` is called when the kernel is brought to the store, and nobody was answered yet. */
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
  const manager = serviceManager(environment, (error) => log.warn({ err: error }, 'systemd cannot be told'))
  mkdirSync(places.runDir, { recursive: true, mode: 0o755 })
  const first = values.quickstart ? quickstart.prepare(places) : undefined

  const agent = await build({
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
  brought()
  const control = await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
  const stopWatching = [await openNetwork(agent, places), followConfiguration(agent, places)]
  const sayStopping = await followState(agent)
  let stopping = false
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    log.info({ signal }, 'stopping; the data plane stays as it is')
    manager.stopping()
    const close = async () => {
      for (const stop of stopWatching) stop()
      await sayStopping()
      agent.tails.close()
      await Promise.all([agent.services.close(GRACE_MS), control.close(GRACE_MS)])
      await agent.close()
    }
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
  // Only now, so that whoever waits for this line may also stop the agent in order.
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

async function openNetwork(agent: Agent, { stateDir }: Places): Promise<() => void> {
  const { config, credentials, overrides, app } = agent
  const rest: Service = {
    name: 'rest',
    listen: (certificate) =>
      listenRest(app.routing.bind(app), {
        ...certificate,
        address: config.text('api_bind_address'),
        port: config.int('api_port'),
        guard: (server) => guardDoor(server, agent),
      }),
  }
  const certificate = await certificateFor(agent, stateDir)
  for (const problem of agent.ignored()) app.log.error({ problem }, 'a setting is ignored')
  agent.services = openServices(
    [rest, grpcService(agent), eventService(agent)],
    {
      tokenAtStart: credentials.tokenHash !== undefined,
      tokenStored: () => overrides.read().tokenHash !== undefined,
      switchedOn: () => overrides.read().rest,
      closed: config.closed,
      certificate,
    },
    app.log,
  )
  await agent.services.follow()
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
  const addresses = await addressesOf(agent.plane.devices).catch((error: unknown) => {
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
