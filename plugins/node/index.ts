/**
 * The node itself: health, status, licence, the index of endpoints, the public key of the certificate.
 * Owns no kernel object and no table. Health and index answer without a credential and tell nothing about the node.
 */
import { defineArea } from '../../core/area.ts'
import { acceleration } from './acceleration.ts'
import { endpoints } from './docs.ts'
import { Docs, Health, Licence, Status } from './schemas.ts'
import { duration } from './uptime.ts'

export default defineArea(import.meta.url, {
  name: 'node',
  prefixes: ['/health', '/status', '/license', '/docs', '/tls'],
  routes(app) {
    const { agent } = app
    const index = endpoints(app)
    const uptime = () => duration(agent.now().getTime() - agent.startedAt.getTime())

    app.get(
      '/health',
      { config: { public: true }, schema: { summary: 'Whether the agent answers', response: { 200: Health } } },
      () => ({ status: 'healthy' as const, uptime: uptime() }),
    )
    app.get('/status', { schema: { summary: 'State, version, acceleration', response: { 200: Status } } }, () => ({
      status: agent.troubles().length > 0 ? ('degraded' as const) : ('running' as const),
      version: agent.version,
      uptime: uptime(),
      acceleration: acceleration(agent.plane.check()),
    }))
    app.get('/license', { schema: { summary: 'The installed licence', response: { 200: Licence } } }, () =>
      agent.licence.view(),
    )
    app.get(
      '/docs',
      { config: { public: true }, schema: { summary: 'Index of endpoints', response: { 200: Docs } } },
      () => ({
        name: 'stratum-node',
        version: agent.version,
        base: '/api/v1',
        count: index().length,
        endpoints: index(),
      }),
    )
    app.get(
      '/tls/pubkey',
      { config: { public: true }, schema: { summary: 'Public key of the certificate, PEM' } },
      (_request, reply) => {
        const pem = agent.publicKey()
        if (pem === undefined) return reply.code(404).send({ error: 'no certificate' })
        return reply.type('text/plain').send(pem)
      },
    )
  },
})
