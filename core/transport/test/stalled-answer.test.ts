/** A client that asks and does not read the answers. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect } from 'node:tls'
import t from 'tap'
import { TOKEN } from '../../../test/build.ts'
import { openAgent } from '../../../test/rest/ask.ts'
import { serve, tlsLine } from '../../../test/rest/wire.ts'

const connections = (server: Server) =>
  new Promise<number>((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))
  })

t.test('whoever stops reading answers holds the connection for two minutes at most', async (t) => {
  const { agent } = await openAgent(t)
  const { port, server } = await serve(t, agent)
  const head = `HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`
  const quick = await tlsLine(t, port)
  quick.write(`GET /api/v1/health ${head}`)
  t.match(await quick.next(), { status: 200 })
  const limits = server()
  t.ok(limits.timeout > 0 && limits.timeout <= 120_000, `${limits.timeout} ms`)
  // It counts for the connections that come from now on.
  limits.timeout = 200
  const stalled = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  t.teardown(() => void stalled.destroy())
  stalled.on('error', () => {})
  await once(stalled, 'secureConnect')
  stalled.pause()
  // Far more than the kernel keeps on the way.
  stalled.write(`GET /api/v1/docs?format=openapi ${head}`.repeat(2000))
  t.equal(await connections(limits), 2)
  while ((await connections(limits)) > 1) await new Promise((resolve) => setTimeout(resolve, 20))
  quick.write(`GET /api/v1/health ${head}`)
  t.match(await quick.next(), { status: 200 }, 'the others are served on')
})
