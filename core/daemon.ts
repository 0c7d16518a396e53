/** stratumd: configuration → agent → control socket → listeners → signals. */
import { mkdirSync } from 'node:fs'
import { hostname, networkInterfaces } from 'node:os'
import { parseArgs } from 'node:util'
import { openKernel } from '../dataplane/kernel.ts'
import { type Agent, build } from './app.ts'
import { controlSocket, type Places, placesFrom } from './environment.ts'
import { openLog } from './observe/log.ts'
import { quickstart } from './quickstart.ts'
import { openServices, type Service } from './services.ts'
import { grpcService } from './transport/grpc.ts'
import { listenControl, listenRest } from './transport/listener.ts'
import { eventService } from './transport/stream.ts'
import { type Certificate, CertificateError, loadCertificate, watchCertificate } from './transport/tls.ts'
import { VERSION } from './version.ts'

/** What is in flight when the agent is told to stop may take this long. */
const GRACE_MS = 5000

/** Runs until a signal ends it. */
export async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { quickstart: { type: 'boolean' }, version: { type: 'boolean' }, help: { type: 'boolean' } },
  })
  if (values.help) {
    process.stdout.write('stratumd [--quickstart]: the agent of a network node; see README.md\n')
    return
  }
  if (values.version) {
    process.stdout.write(`${VERSION}\n`)
    return
  }
  const environment = process.env
  const places = placesFrom(environment)
  const log = openLog('info')
  mkdirSync(places.runDir, { recursive: true, mode: 0o755 })
  const first = values.quickstart ? quickstart.prepare(places) : undefined

  const agent = await build({ ...places, environment, log, openPlane: openKernel })
  const control = await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
  const stopWatching = await openNetwork(agent, places)
  let stopping = false
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    log.info({ signal }, 'stopping; the data plane stays as it is')
    const close = async () => {
      stopWatching()
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
  process.on('SIGHUP', () => {
    agent.config
      .reload()
      .catch((error: unknown) => log.error({ err: error }, 'the configuration could not be reloaded'))
  })

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
  log.level = agent.config.text('log_level')
  await quickstart.finish(agent, first)
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
      }),
  }
  const certificate = await certificateFor(agent, stateDir)
  agent.services = openServices(
    [rest, grpcService(agent), eventService(agent)],
    {
      tokenAtStart: credentials.tokenHash !== undefined,
      tokenStored: () => overrides.read().tokenHash !== undefined,
      switchedOn: () => overrides.read().rest,
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
    { onProblem: (problem) => app.log.warn({ problem: String(problem) }, 'the replaced certificate is not usable') },
  )
}

async function certificateFor(agent: Agent, stateDir: string): Promise<Certificate | { reason: string }> {
  const { config, app, now } = agent
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? [])
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
    if (!(error instanceof CertificateError)) throw error
    app.log.error({ reason: error.message }, 'no certificate: the network services stay off')
    return { reason: error.message }
  }
}
