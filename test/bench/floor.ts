/** What the agent is compared with: a bare Fastify over TLS that answers the same two fields, in a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Fastify from 'fastify'

/** Starts it with the certificate in `tlsDir`; resolves with its port. */
export async function startFloor(tlsDir: string): Promise<{ child: ChildProcess; port: number }> {
  const child = spawn(process.execPath, [import.meta.filename, tlsDir], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data')
  return { child, port: Number(String(line)) }
}

async function serve(tlsDir: string): Promise<void> {
  const app = Fastify()
  const text = { type: 'string' }
  const response = { 200: { type: 'object', properties: { status: text, uptime: text } } }
  app.get('/api/v1/health', { schema: { response } }, () => ({ status: 'healthy', uptime: '1s' }))
  await app.ready()
  const pem = (name: string) => readFileSync(join(tlsDir, name))
  const server = https.createServer({ cert: pem('cert.pem'), key: pem('key.pem') }, app.routing)
  server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
}

if (import.meta.filename === process.argv[1]) await serve(process.argv[2] ?? '')
