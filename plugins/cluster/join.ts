/** Joining by a code: what the member does that is asked, and what the node does that comes. */
import { createPublicKey, X509Certificate } from 'node:crypto'
import https, { type RequestOptions } from 'node:https'
import { connect, type DetailedPeerCertificate } from 'node:tls'
import type { EventDraft } from '../../core/area.ts'
import { ApiError, badRequest, conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import { TLS_MIN_VERSION } from '../../core/transport/tls.ts'
import { addressOf } from './address.ts'
import { makeKey } from './certificates.ts'
import type { Cluster } from './cluster.ts'
import { type Code, giveBack, placeText, readCode, revokeCodesOf, splitPlace, useCode } from './codes.ts'
import { type Admission, NODE_ID } from './engine.ts'
import { unavailable } from './membership.ts'
import type { JoinCode } from './schemas.ts'

const CONNECT_MS = 5000
/** The member may have to wait until etcd takes another member. */
const ADMIT_MS = 50_000
/** It may have to wait until etcd finds its cluster healthy. */
const WITHDRAW_MS = 30_000
const ANSWER_LIMIT = 65_536

interface Asked {
  secret: string
  node: string
  address: string
  publicKey: string
}

/** At a member: admits whoever presents a code, and signs its key. @throws ApiError 400 | 403 | 409 | 503 */
export async function admitByCode({ engine, context, told }: Cluster, body: unknown): Promise<Admission> {
  const { secret, node, address, publicKey } = readAsked(body)
  const known = engine.standing()?.members.find(({ id }) => id === node)
  const when = { now: context.now(), pending: known?.voter === false }
  const { code, first } = await useCode(engine.records, secret, { node, publicKey }, when)
  const isNew = known === undefined
  if (isNew) told.add(node)
  let admission: Admission
  try {
    admission = await engine.certify(node, address, publicKey)
  } catch (error) {
    told.delete(node)
    if (first) await giveBack(engine.records, code.id).catch(() => {})
    throw error
  }
  const added = { type: 'cluster_member.added', resource: `/cluster/members/${node}`, data: { id: node, address } }
  await tellAdmitted(context, code, isNew ? [added] : [])
  return admission
}

/** Removes another member, or one that was admitted; it cannot come back by the code that it came by. @throws ApiError 404 | 409 | 503 */
export async function remove({ engine }: Pick<Cluster, 'engine'>, node: string): Promise<void> {
  await revokeCodesOf(engine.records, node)
  await engine.expel(node)
}

/** The node is admitted, whatever becomes of the event. */
async function tellAdmitted(context: Cluster['context'], code: JoinCode, added: readonly EventDraft[]): Promise<void> {
  const used = { type: 'join_code.updated', resource: `/cluster/join-codes/${code.id}`, data: code }
  await context
    .mutate(system(`join code ${code.id}`), () => ({ result: undefined, touch: [], events: [used, ...added] }))
    .catch((error: unknown) => context.log.error({ err: error }, 'the event of an admission could not be stored'))
}

/** Nothing of what is said here is repeated, as a stranger may have said it. */
function readAsked(body: unknown): Asked {
  if (typeof body !== 'object' || body === null) throw badRequest('body must be an object')
  const { secret, node_id, address, public_key } = body as Record<string, unknown>
  if (typeof secret !== 'string' || secret.length > 256) throw badRequest('secret is required')
  if (typeof node_id !== 'string' || !NODE_ID.test(node_id)) throw badRequest('node_id: must be the name of a node')
  if (typeof address !== 'string') throw badRequest('address is required')
  if (typeof public_key !== 'string' || public_key.length > 4096) throw badRequest('public_key is required')
  return { secret, node: node_id, address: addressOf(address), publicKey: canonicalKey(public_key) }
}

/** A key that is none must not use up a code. */
function canonicalKey(pem: string): string {
  try {
    return createPublicKey(pem).export({ type: 'spki', format: 'pem' }).toString()
  } catch {
    throw badRequest('public_key: not the PEM of a public key')
  }
}

/** At the node that comes: becomes a member by a code. @throws ApiError */
export async function joinByCode(cluster: Cluster, text: string): Promise<Code> {
  cluster.require()
  const { engine, context } = cluster
  const { now, config } = context
  const code = readCode(text, now())
  if (engine.standing()) throw conflict('IN_CLUSTER', 'this node is in a cluster already: leave it first')
  const { key, publicKey } = makeKey()
  const address = addressOf(config.text('cluster_address'))
  const asked = { secret: code.secret, node_id: engine.self, address, public_key: publicKey }
  const { place, admission } = await admittedBySomeone(code, asked)
  const own = { ca: admission.ca, cert: admission.certificate, key }
  // Otherwise the members would wait for this node for an hour.
  await engine.enter(admission, key, async () => void (await post(place, '/withdraw', {}, own, WITHDRAW_MS)))
  return code
}

/** Asks the members that the code names, one after the other, until one can be reached. */
async function admittedBySomeone(code: Code, asked: object): Promise<{ place: string; admission: Admission }> {
  const silent: string[] = []
  for (const place of code.addresses) {
    let ca: string
    try {
      ca = await authorityAt(place, code.fingerprint)
    } catch (error) {
      silent.push(`${place}: ${(error as Error).message}`)
      continue
    }
    return { place, admission: (await post(place, '/join', asked, { ca }, ADMIT_MS)) as unknown as Admission }
  }
  throw unavailable(`no member can be reached (${silent.join('; ')})`)
}

/**
 * The certificate of the cluster's authority, PEM, as the member at `place` shows it: the one with this fingerprint. Nothing is said
 * to whoever shows another one, and who merely shows the right one is found out by the next connection, which verifies.
 */
function authorityAt(place: string, fingerprint: string): Promise<string> {
  const { address: host, port } = splitPlace(place) ?? { address: '', port: 0 }
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, rejectUnauthorized: false, minVersion: TLS_MIN_VERSION }, () => {
      const found = [...chainOf(socket.getPeerCertificate(true))].find((one) => one.fingerprint256 === fingerprint)
      socket.destroy()
      if (found) resolve(found.toString())
      else reject(new Error('another cluster, or none, is there'))
    })
    socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error('no connection')))
    socket.once('error', reject)
  })
}

function* chainOf(leaf: DetailedPeerCertificate): Generator<X509Certificate> {
  for (let at = leaf; at?.raw !== undefined; at = at.issuerCertificate) {
    yield new X509Certificate(at.raw)
    if (at.issuerCertificate === at) return
  }
}

interface Trust {
  ca: string
  cert?: string
  key?: string
}

/** @throws ApiError as the member answers it; 503 when none comes */
function post(place: string, path: string, body: object, trust: Trust, ms: number): Promise<object> {
  const { address: host, port } = splitPlace(place) ?? { address: '', port: 0 }
  const text = JSON.stringify(body)
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  return new Promise((resolve, reject) => {
    const failed = (error: Error) =>
      reject(unavailable(`the member at ${place} does not answer: ${error.message}`, error))
    const options: RequestOptions = { host, port, path, method: 'POST', headers, ...trust, minVersion: TLS_MIN_VERSION }
    const request = https.request({ ...options, agent: false }, async (response) => {
      try {
        let answer = ''
        for await (const part of response.setEncoding('utf8')) {
          answer += part
          if (answer.length > ANSWER_LIMIT) throw new Error('its answer is too long')
        }
        const value: { error?: unknown } = JSON.parse(answer)
        if (response.statusCode === 200) resolve(value)
        else
          reject(new ApiError(response.statusCode ?? 503, 'REFUSED', `the member at ${place}: ${String(value.error)}`))
      } catch (error) {
        failed(error as Error)
      }
    })
    request.setTimeout(ms, () => request.destroy(new Error(`nothing came for ${ms / 1000} s`)))
    request.once('error', failed)
    request.end(text)
  })
}

/** What a code tells of this cluster. */
export function codeFor({ engine, context }: Cluster, secret: string, expiresAt: string): Code {
  const [standing, tls] = [engine.standing(), engine.tls()]
  if (standing === undefined || tls === undefined) throw unavailable('this node is in no cluster')
  const port = context.config.int('cluster_port')
  // This node first: it is up.
  const [own, others] = [[] as string[], [] as string[]]
  for (const { id, address, voter } of standing.members) {
    if (voter) (id === engine.self ? own : others).push(placeText(address, port))
  }
  return {
    cluster: standing.cluster,
    addresses: [...own, ...others],
    fingerprint: new X509Certificate(tls.ca).fingerprint256,
    secret,
    expires_at: expiresAt,
  }
}
