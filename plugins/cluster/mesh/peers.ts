/** Calls that this node passes on: HTTPS to the door of the member named, which is known by its certificate. */
import { X509Certificate } from 'node:crypto'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { checkServerIdentity } from 'node:tls'
import { encodePassed, type PassedCall, type Peers } from '../../../core/transport/elsewhere.ts'
import { TLS_MIN_VERSION } from '../../../core/transport/tls.ts'
import { fingerprintOf } from '../certificates.ts'
import type { Engine, Peer } from '../engine.ts'
import { unavailable } from '../membership.ts'

/** What the member called has found out about the caller. Nobody but the door of another member reads it. */
export const CALLER = 'x-stratum-caller'
export const PASS = '/pass'
/** To reach a member; one that is known to be away is tried all the same, because that may be news of a while ago. */
const CONNECT_MS = { online: 3000, offline: 1000 }
/** A change waits for those before it and for the kernel; longer than this no answer takes to begin. */
const ANSWER_MS = 60_000
/** Shorter than the door keeps a connection, so that none is used that is about to be closed. */
const IDLE_MS = 20_000

/** Calls passed on. */
export interface PassCounts {
  answered: number
  unreachable: number
}

export interface OwnPeers extends Peers {
  close(): void
}

/** What is asked of the engine. */
export type PeerEngine = Pick<Engine, 'self' | 'standing' | 'tls' | 'onChange'>
type Material = NonNullable<ReturnType<Engine['tls']>>

/**
 * Node sends the body of a method that has none by custom (GET, DELETE, OPTIONS) as it is, without saying where it ends, and what
 * the caller wrote there would be read as a call of this member (RFC 9112 §11.2).
 */
const framing = ({ body }: PassedCall): OutgoingHttpHeaders =>
  body === undefined ? {} : { 'content-length': body.length }

export function openPeers(engine: PeerEngine, port: number, counts: PassCounts): OwnPeers {
  let agents = new Map<string, https.Agent>()
  let material: Material | undefined
  const find = (node: string) => engine.standing()?.members.find(({ id }) => id === node && id !== engine.self)

  const ownAddress = () => engine.standing()?.members.find(({ id }) => id === engine.self)?.address

  /** Connections are kept by member, and made anew with another certificate or address. */
  function agentFor({ id, address, key: fingerprint }: Peer, tls: Material): https.Agent {
    if (material?.certificate !== tls.certificate || material.ca !== tls.ca) forget()
    material = tls
    const key = `${id} ${address} ${fingerprint}`
    const { ca, certificate: cert, key: own } = tls
    const agent =
      agents.get(key) ??
      // What the door shows must be the certificate of this very member, and its key the one that it was admitted with.
      new https.Agent({
        keepAlive: true,
        timeout: IDLE_MS,
        maxFreeSockets: 4,
        ca,
        cert,
        key: own,
        servername: id,
        checkServerIdentity: (name, shown) =>
          checkServerIdentity(name, shown) ??
          (fingerprintOf(new X509Certificate(shown.raw).publicKey) === fingerprint
            ? undefined
            : new Error(`this is not the key of ${id}`)),
        minVersion: TLS_MIN_VERSION,
      })
    agents.set(key, agent)
    return agent
  }

  function forget(): void {
    for (const agent of agents.values()) agent.destroy()
    agents = new Map()
  }

  function send(peer: Peer, call: PassedCall, tls: Material, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const { method, headers, body } = call
      const request = https.request({
        agent: agentFor(peer, tls),
        host: peer.address,
        // The address that the others' firewalls and bounds know this node by.
        localAddress: ownAddress(),
        port,
        method,
        path: PASS + call.url,
        headers: { ...headers, ...framing(call), host: peer.id, [CALLER]: encodePassed(call.passed) },
        signal,
      })
      let connected = false
      const fail = (why: string) => request.destroy(new Error(why))
      const connecting = setTimeout(() => fail('no connection'), CONNECT_MS[peer.online ? 'online' : 'offline'])
      const waiting = setTimeout(() => fail('no answer'), ANSWER_MS)
      // Whoever falls silent in between is not waited for.
      const stopListening = engine.onChange(() => {
        if (connected && peer.online && find(peer.id)?.online !== true) fail('it fell silent')
      })
      const settled = () => {
        clearTimeout(connecting)
        clearTimeout(waiting)
        stopListening()
      }
      const ready = () => {
        connected = true
        clearTimeout(connecting)
      }
      request.once('socket', (socket) => {
        if (request.reusedSocket) ready()
        else socket.once('secureConnect', ready)
      })
      request.once('response', (answer) => {
        settled()
        resolve(answer)
      })
      // Also what comes after the answer's head: the answer itself tells of that.
      request.on('error', (error) => {
        settled()
        const may = connected && method !== 'GET' && method !== 'HEAD' ? '; what was asked may have been done' : ''
        reject(unavailable(`member ${peer.id} does not answer${may}`, error))
      })
      request.end(body)
    })
  }

  return {
    self: () => engine.self,
    has: (node) => find(node) !== undefined,
    async pass(node, call, signal) {
      const [peer, tls] = [find(node), engine.tls()]
      if (peer === undefined || tls === undefined) throw unavailable('it has just changed; try again')
      try {
        const answer = await send(peer, call, tls, signal)
        counts.answered++
        return answer
      } catch (error) {
        counts.unreachable++
        throw error
      }
    },
    close: forget,
  }
}
