/**
 * The network services: REST, gRPC health, event stream. They listen only while a token is configured, the switch is on
 * and a certificate is at hand (D26), and all three present that certificate.
 */
import type { FastifyBaseLogger } from 'fastify'
import { type Keep, NOT_KEPT } from './kept-sockets.ts'
import type { Listener } from './transport/listener.ts'
import type { Certificate } from './transport/tls.ts'

export type ServiceName = 'rest' | 'grpc' | 'events'

export interface SecureListener extends Listener {
  /** New connections use the new material; the ones that stand are not touched. */
  setCertificate(material: { cert: string; key: string }): void
}
export interface Service {
  name: ServiceName
  listen(certificate: Certificate): Promise<SecureListener>
}

export interface ServiceStatus {
  name: ServiceName
  /** `address:port` while it listens. */
  listening?: string
  /** Why it does not. */
  off?: string
}

export interface Services {
  status(): ServiceStatus[]
  /** Opens or closes listeners so that they follow the conditions. */
  follow(): Promise<void>
  useCertificate(certificate: Certificate): void
  close(graceMs: number): Promise<void>
}

/** Nothing listens: an agent that was built and not started. */
export const NO_SERVICES: Services = {
  status: () => [],
  follow: async () => {},
  useCertificate: () => {},
  close: async () => {},
}

export interface Conditions {
  /** The token as configured when the agent started. */
  tokenAtStart: boolean
  /** A token is configured now; it counts from the next start. */
  tokenStored: () => boolean
  switchedOn: () => boolean
  /** Why they must stay off until the agent has been started anew; undefined when nothing is against them. */
  closed: () => string | undefined
  /** The certificate, or why there is none. */
  certificate: Certificate | { reason: string }
}

/** Until what could not listen is tried again. */
const AGAIN_MS = 1000

export function openServices(
  all: readonly Service[],
  conditions: Conditions,
  log: FastifyBaseLogger,
  keepOf: (name: ServiceName) => Keep = () => NOT_KEPT,
): Services {
  const open = new Map<ServiceName, SecureListener>()
  const failed = new Map<ServiceName, string>()
  let certificate = conditions.certificate
  let again: NodeJS.Timeout | undefined
  let closing = false
  let tail: Promise<unknown> = Promise.resolve()

  function reasonOff(): string | undefined {
    if (!conditions.tokenAtStart) {
      return conditions.tokenStored() ? 'the token takes effect at the next start of the agent' : 'no token'
    }
    if (!conditions.switchedOn()) return 'switched off'
    const closed = conditions.closed()
    if (closed !== undefined) return `what guards it cannot be used: ${closed}`
    return 'reason' in certificate ? `no certificate: ${certificate.reason}` : undefined
  }

  async function start(service: Service): Promise<void> {
    if ('reason' in certificate) return
    try {
      const listener = await service.listen(certificate)
      open.set(service.name, listener)
      failed.delete(service.name)
      log.info({ service: service.name, listening: listener.where }, 'service listens')
    } catch (error) {
      const { message } = error as Error
      if (failed.get(service.name) !== message) {
        log.error({ err: error, service: service.name }, 'service cannot listen; it is tried again every second')
      }
      failed.set(service.name, message)
      // Its address may come later than the agent, at a boot.
      clearTimeout(again)
      if (!closing) again = setTimeout(() => void follow(), AGAIN_MS).unref()
    }
  }

  async function followNow(): Promise<void> {
    if (reasonOff() === undefined) {
      for (const service of all) if (!open.has(service.name)) await start(service)
      return
    }
    const closing = [...open.values()]
    open.clear()
    for (const { name } of all) keepOf(name).letGo()
    await Promise.all(closing.map((listener) => listener.close(5000)))
  }

  function follow(): Promise<void> {
    const run = tail.then(followNow)
    tail = run.catch(() => {})
    return run
  }

  return {
    status: () =>
      all.map(({ name }) => {
        const listening = open.get(name)?.where
        if (listening !== undefined) return { name, listening }
        return { name, off: reasonOff() ?? failed.get(name) ?? 'starting' }
      }),
    follow,
    useCertificate(next) {
      certificate = next
      for (const listener of open.values()) listener.setCertificate(next)
    },
    async close(graceMs) {
      closing = true
      clearTimeout(again)
      await Promise.all([...open.values()].map((listener) => listener.close(graceMs)))
      open.clear()
    },
  }
}
