/**
 * gRPC health on 7071: the standard `grpc.health.v1.Health` for the node token only. The service "" is the node, the others
 * are the areas, `dataplane` and `storage` (D113). The library costs about 7 MB of memory, so it is loaded when the service starts.
 */
import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { createServer, type Server as Door } from 'node:tls'
import type {
  handleServerStreamingCall,
  handleUnaryCall,
  ServerInterceptor,
  ServerOptions,
  ServerWritableStream,
  ServiceDefinition,
  status,
} from '@grpc/grpc-js'
import type { Agent } from '../agent.ts'
import { clientAt } from '../gates/client.ts'
import type { Keep } from '../kept-sockets.ts'
import type { SecureListener, Service } from '../services.ts'
import { guardDoor } from './door.ts'
import { listenAt } from './listening.ts'
import { admission } from './stream/admission.ts'
import { type Certificate, endSlowHandshakes, tlsOptions } from './tls.ts'

type Grpc = typeof import('@grpc/grpc-js')
type Material = Pick<Certificate, 'cert' | 'key'>
/** The values of `ServingStatus` that are answered here. */
type Serving = 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN'
type Question = { service: string }
type Answer = { status: Serving }

const PROTO = join(import.meta.dirname, '..', '..', 'proto', 'health.proto')
const POLL_MS = 1000
/** A request is a name: whoever sends more, or opens more than a health check needs, is no health check. */
const LIMITS: ServerOptions = {
  'grpc.max_concurrent_streams': 64,
  'grpc.max_receive_message_length': 4096,
  'grpc.max_connection_idle_ms': 300_000,
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 20_000,
  'grpc-node.max_session_memory': 10,
  'grpc.enable_channelz': 0,
}

export const grpcService = (agent: Agent, keep?: Keep): Service => ({
  name: 'grpc',
  listen: (certificate) => listenGrpc(agent, certificate, { ...(keep && { keep }) }),
})

/** Serves health over TLS on `api_bind_address` and `grpc_port`. @throws what listen(2) says */
export async function listenGrpc(
  agent: Agent,
  certificate: Material,
  { pollMs = POLL_MS, keep }: { pollMs?: number; keep?: Keep } = {},
): Promise<SecureListener> {
  const grpc = await import('@grpc/grpc-js')
  const health = openHealth(agent, grpc, pollMs)
  const server = new grpc.Server({ ...LIMITS, interceptors: [guard(agent, grpc)] })
  server.addService(await healthDefinition(), { check: health.check, list: health.list, watch: health.watch })
  const { injectConnection } = server.createConnectionInjector(grpc.ServerCredentials.createInsecure())

  // TLS is ours, so that this port speaks, binds, counts and ends connections like the other two.
  const door = createServer({ ...tlsOptions(certificate), ALPNProtocols: ['h2'], noDelay: true }, (socket) => {
    // RFC 9113 §3.2: without having agreed on h2 nobody speaks it.
    if (socket.alpnProtocol === 'h2') injectConnection(socket)
    else socket.destroy()
  })
  const sockets = new Set<Socket>()
  door.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  endSlowHandshakes(door)
  guardDoor(door, agent)
  const { config } = agent
  await listenAt(door, { address: config.text('api_bind_address'), port: config.int('grpc_port') }, keep)
  door.on('error', (error) => agent.app.log.error({ err: error }, 'gRPC health cannot accept'))

  return {
    where: whereOf(door),
    setCertificate: (next) => door.setSecureContext(tlsOptions(next)),
    async close(graceMs) {
      const closed = once(door, 'close')
      door.close()
      health.close()
      server.tryShutdown(() => {})
      const timer = setTimeout(() => {
        server.forceShutdown()
        for (const socket of sockets) socket.destroy()
      }, graceMs)
      await closed
      clearTimeout(timer)
    },
  }
}

/** Judges every call before its message is read. */
function guard(agent: Agent, grpc: Grpc): ServerInterceptor {
  const admit = admission(agent, 'grpc')
  const codes: Readonly<Record<number, status>> = {
    401: grpc.status.UNAUTHENTICATED,
    403: grpc.status.PERMISSION_DENIED,
    429: grpc.status.RESOURCE_EXHAUSTED,
  }
  return (_method, call) => {
    const listener = new grpc.ServerListenerBuilder().withOnReceiveMetadata((metadata, pass) => {
      const refusal = admit(
        clientAt(call.getConnectionInfo().remoteAddress ?? ''),
        textOf(metadata.get('authorization')),
      )
      if (refusal === undefined) return pass(metadata)
      call.sendStatus({ code: codes[refusal.status] ?? grpc.status.INTERNAL, details: refusal.message })
    })
    const responder = new grpc.ResponderBuilder().withStart((next) => next(listener.build())).build()
    return new grpc.ServerInterceptingCall(call, responder)
  }
}

const textOf = ([first]: readonly (string | Buffer)[]): string | undefined => first?.toString()

/** The three methods, over the states as they are when asked. A watch is told what changed at the next look. */
function openHealth(agent: Agent, grpc: Grpc, pollMs: number) {
  type Watch = { call: ServerWritableStream<Question, Answer>; told: Serving | undefined }
  const watches = new Set<Watch>()
  let clock: NodeJS.Timeout | undefined

  /** A frozen licence is not asked: it stops changes, not the service. */
  function statuses(): Map<string, Serving> {
    const names = ['', ...agent.states.all().map(({ name }) => name), 'dataplane', 'storage']
    return new Map(names.map((name) => [name, servingIf(agent.ailing(name) === undefined)] as const))
  }

  function tell(watch: Watch, all: ReadonlyMap<string, Serving>): void {
    const now = all.get(watch.call.request.service) ?? 'SERVICE_UNKNOWN'
    if (now !== watch.told) watch.call.write({ status: now })
    watch.told = now
  }

  function look(): void {
    turnOut()
    const all = statuses()
    for (const watch of watches) tell(watch, all)
  }

  function turnOut(): void {
    for (const watch of watches) {
      if (agent.gates.admits(addressOf(watch.call.getPeer()))) continue
      endWith(watch, grpc.status.PERMISSION_DENIED, 'forbidden: source address not allowed')
    }
  }

  // The allow-list takes effect at once, also on those who came in before it was changed, or just while it was.
  const stopJudging = agent.config.onChange((key) => key === 'api_allowed_ips' && turnOut())

  function forget(watch: Watch): void {
    watches.delete(watch)
    if (watches.size > 0) return
    clearInterval(clock)
    clock = undefined
  }

  function endWith(watch: Watch, code: status, details: string): void {
    forget(watch)
    watch.call.emit('error', { code, details })
  }

  const check: handleUnaryCall<Question, Answer> = ({ request }, reply) => {
    const found = statuses().get(request.service)
    if (found !== undefined) return reply(null, { status: found })
    // The name is not repeated: what a caller wrote need not be fit for a header.
    reply({ code: grpc.status.NOT_FOUND, details: 'no such service: ask for "" or for one that List names' })
  }
  const list: handleUnaryCall<object, { statuses: Record<string, Answer> }> = (_call, reply) => {
    const answers = [...statuses()].map(([name, found]) => [name, { status: found }] as const)
    reply(null, { statuses: Object.fromEntries(answers) })
  }
  const watch: handleServerStreamingCall<Question, Answer> = (call) => {
    const own: Watch = { call, told: undefined }
    watches.add(own)
    call.once('cancelled', () => forget(own))
    clock ??= setInterval(look, pollMs).unref()
    tell(own, statuses())
  }
  return {
    check,
    list,
    watch,
    close() {
      stopJudging()
      for (const own of watches) endWith(own, grpc.status.UNAVAILABLE, 'the agent stops')
    },
  }
}

const servingIf = (well: boolean): Serving => (well ? 'SERVING' : 'NOT_SERVING')

/** Of a peer as the library writes it: `address:port`, an IPv6 one without brackets. */
const addressOf = (peer: string): string => clientAt(peer.slice(0, peer.lastIndexOf(':'))).address

async function healthDefinition(): Promise<ServiceDefinition> {
  const { load } = await import('@grpc/proto-loader')
  const loaded = await load(PROTO, { enums: String, defaults: true })
  // The file holds a service of this name.
  return loaded['grpc.health.v1.Health'] as ServiceDefinition
}

function whereOf(door: Door): string {
  // It listens, on TCP.
  const { address, port, family } = door.address() as AddressInfo
  return family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
}
