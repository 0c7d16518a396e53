/**
 * A member that was away may have missed a member that came meanwhile and leads by now: it does not trust that one, and hears nothing
 * without it. So it asks the members that it knows whom they trust.
 */
import { X509Certificate } from 'node:crypto'
import https from 'node:https'
import { checkServerIdentity } from 'node:tls'
import { TLS_MIN_VERSION } from '../../../core/transport/tls.ts'
import { fingerprintOf } from '../certificates.ts'
import type { Cluster } from '../cluster.ts'
import type { Peer } from '../engine.ts'

export const AUTHORITIES = '/authorities'
const EVERY_MS = 5000
const ANSWER_MS = 3000
const ANSWER_LIMIT = 262_144
/** Authorities in an answer. */
const MOST = 64

/** Asks as long as this node is a member without a leader. Returns how to stop that. */
export function askWhomToTrust(cluster: Cluster): () => void {
  const { engine, context } = cluster
  let silent = false
  let asking = false
  const timer = setInterval(() => {
    const standing = engine.standing()
    const wasSilent = silent
    silent = standing !== undefined && !standing.writable
    // An election is over by the second look.
    if (!silent || !wasSilent || asking || standing === undefined) return
    asking = true
    void askAll(cluster, standing.members)
      .catch((error: unknown) => context.log.debug({ err: error }, 'whom the members trust is not known'))
      .finally(() => {
        asking = false
      })
  }, EVERY_MS).unref()
  return () => clearInterval(timer)
}

async function askAll(cluster: Cluster, members: readonly Peer[]): Promise<void> {
  const told = (await answersOf(cluster, members)).flat()
  if (told.length > 0) await cluster.engine.learn(told)
}

/** Whether a member that this node knows takes it for one: then whoever says otherwise is not believed. */
export async function isCountedOn(cluster: Cluster): Promise<boolean> {
  const answers = await answersOf(cluster, cluster.engine.standing()?.members ?? [])
  return answers.some((authorities) => authorities.length > 0)
}

/** What each of the other `members` says. */
function answersOf({ engine, context }: Cluster, members: readonly Peer[]): Promise<string[][]> {
  const own = members.find(({ id }) => id === engine.self)
  const port = context.config.int('cluster_port')
  const others = members.filter(({ id }) => id !== engine.self)
  return Promise.all(others.map((peer) => ask(engine, peer, { port, localAddress: own?.address })))
}

/** What is no certificate of an authority is left out, so that one member cannot keep a node from hearing the others. */
function authoritiesIn(told: unknown): string[] {
  if (!Array.isArray(told)) return []
  const texts = told.slice(0, MOST).filter((one): one is string => typeof one === 'string')
  return texts.flatMap((text) => {
    try {
      const read = new X509Certificate(text)
      return read.ca ? [read.toString()] : []
    } catch {
      return []
    }
  })
}

/** PEM of the authorities that `peer` trusts; none when it does not say. */
function ask(
  { tls }: Cluster['engine'],
  peer: Peer,
  where: { port: number; localAddress: string | undefined },
): Promise<string[]> {
  const { ca, certificate: cert, key } = tls() ?? {}
  if (ca === undefined || cert === undefined || key === undefined) return Promise.resolve([])
  const isIt = ({ raw }: { raw: Buffer }) =>
    peer.key === undefined || fingerprintOf(new X509Certificate(raw).publicKey) === peer.key
  const options: https.RequestOptions = {
    ...{ host: peer.address, port: where.port, path: AUTHORITIES, agent: false, servername: peer.id },
    ...(where.localAddress !== undefined && { localAddress: where.localAddress }),
    // setTimeout counts from the connection on, and there is none to a member whose firewall drops this node's packets.
    ...{ ca, cert, key, minVersion: TLS_MIN_VERSION, timeout: ANSWER_MS },
    checkServerIdentity: (name, shown) =>
      checkServerIdentity(name, shown) ?? (isIt(shown) ? undefined : new Error(`this is not the key of ${name}`)),
  }
  return new Promise((resolve) => {
    const request = https.get(options, async (response) => {
      try {
        let text = ''
        for await (const part of response.setEncoding('utf8')) {
          text += part
          if (text.length > ANSWER_LIMIT) throw new Error('its answer is too long')
        }
        const { authorities } = JSON.parse(text) as { authorities?: unknown }
        resolve(response.statusCode === 200 ? authoritiesIn(authorities) : [])
      } catch {
        resolve([])
      }
    })
    request.once('timeout', () => request.destroy())
    request.once('error', () => resolve([]))
  })
}
