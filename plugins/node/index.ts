/**
 * The node itself: health, status, licence, metrics, the documents about the API, the public key of the certificate.
 * Owns no kernel object and no table. Health and documents answer without a credential and tell nothing about the node.
 */
import { amiss, stateOf } from '../../core/agent-state.ts'
import { defineArea } from '../../core/area.ts'
import { LicenceShown } from '../../core/licence/schema.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { acceleration } from './acceleration.ts'
import { docsRoute } from './docs.ts'
import { Health, Metrics, PublicKey, Status } from './schemas.ts'
import { duration } from './uptime.ts'

export default defineArea(import.meta.url, {
  name: 'node',
  summary:
    'The node itself: whether it answers, its state, its licence, its metrics, and the documents about this API.',
  prefixes: ['/health', '/status', '/license', '/metrics', '/docs', '/tls'],
  routes(app) {
    const { agent } = app
    const uptime = () => duration(agent.now().getTime() - agent.startedAt.getTime())

    app.get(
      '/health',
      { config: { public: true }, schema: { summary: 'Whether the agent answers', response: { 200: Health } } },
      () => ({ status: 'healthy' as const, uptime: uptime() }),
    )
    app.get(
      '/status',
      { config: { volatile: true }, schema: { summary: 'State, version, acceleration', response: { 200: Status } } },
      () => ({
        ...warningsOf([agent.stages.doing() ?? [], amiss(agent)].flat()),
        status: stateOf(agent),
        version: agent.version,
        uptime: uptime(),
        acceleration: acceleration(agent.plane.check(), agent.stages.doing()),
      }),
    )
    app.get(
      '/license',
      { schema: { summary: 'The installed licence', response: { 200: LicenceShown } } },
      (request, reply) => sendOne(request, reply, agent.licence.view()),
    )
    app.get(
      '/metrics',
      { schema: { summary: 'Metrics as Prometheus reads them', response: { 200: Metrics } } },
      async (_request, reply) => reply.type(agent.metrics.contentType).send(await agent.metrics.text()),
    )
    docsRoute(app)
    app.get(
      '/tls/pubkey',
      { config: { public: true }, schema: { summary: 'Public key of the certificate, PEM', response: PublicKey } },
      async (_request, reply) => {
        const pem = agent.publicKey()
        if (pem === undefined) return reply.code(404).send({ error: 'no certificate' })
        return reply.type('text/plain').send(pem)
      },
    )
  },
})

const warningsOf = (warnings: string[]) => (warnings.length > 0 ? { warnings } : {})
