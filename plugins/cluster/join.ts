/** Joining by a code: what the member does that is asked, and what the node does that comes. */
import { X509Certificate } from 'node:crypto'
import https, { type RequestOptions } from 'node:https'
import { isIPv6, type TcpSocketConnectOpts } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ConnectionOptions, connect, type DetailedPeerCertificate } from 'node:tls'
import type { EventDraft } from '../../core/area.ts'
import { ApiError, badRequest, conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import { TLS_MIN_VERSION } from '../../core/transport/tls.ts'
import { addressOf } from './address.ts'
import { fingerprint256, issuerOf, makeOwn, readShown, shownBy } from './authority.ts'
import type { Cluster } from './cluster.ts'
import { type Code, giveBack, placeText, readCode, revokeCodesOf, revokeGood, splitPlace, useCode } from './codes.ts'
import { type Admission, NODE_ID } from './engine.ts'
import { sayFarewell } from './farewell.ts'
import { WITHDRAWN } from './hearing.ts'
import { NOT_COME_YET, unavailable } from './membership.ts'
import { ENTRY } from './mesh/door.ts'
import { followCodes } from './newcomers.ts'
import type { JoinCode } from './schemas.ts'

const CONNECT_MS = 5000
/** The member may have to wait until etcd takes another member, and until the members trust it. */
const ADMIT_MS = 90_000
/** How long a member that answers 503 is asked again, and how often: each member's etcd starts anew once. */
const [BUSY_MS, AGAIN_MS] = [60_000, 500]
/** The member waits some seconds for a leader that may be only busy. */
const ENTRY_MS = 10_000
/** It may have to wait until etcd finds its cluster healthy. */
const WITHDRAW_MS = 30_000
const ANSWER_LIMIT = 65_536

interface Asked {
  secret: string
  node: string
  address: string
  shown: ReturnType<typeof readShown>
}

/** At a member: admits whoever presents a code. @throws ApiError 400 | 403 | 409 | 503 */
export async function admitByCode({ engine, context, told }: Cluster, body: unknown): Promise<Admission> {
  const { secret, node, address, shown } = readAsked(body)
  const { publicKey } = shown
  const known = engine.standing()?.members.find(({ id }) => id === node)
  const when = { now: context.now(), pending: known?.voter === false }
  const { code, first } = await useCode(engine.records, secret, { node, publicKey }, when)
  const isNew = known === undefined
  if (isNew) told.add(node)
  let admission: Admission
  try {
    admission = await engine.certify(node, address, shown)
  } catch (error) {
    told.delete(node)
    if (first) await giveBack(engine.records, code.id).catch(() => {})
    throw error
  }
  await followCodes({ context, engine }).catch(() => {})
  const added = { type: 'cluster_member.added', resource: `/cluster/members/${node}`, data: { id: node, address } }
  await tellAdmitted(context, code, isNew ? [added] : [])
  return admission
}

/**
 * Removes another member, or one that was admitted; it cannot come back by the code that it came by, nor by any that there was when it was removed.
 * Resolves to the ids of codes that are revoked for that. @throws ApiError 404 | 409 | 503
 */
export async function remove(cluster: Pick<Cluster, 'engine' | 'context'>, node: string): Promise<string[]> {
  const { engine, context } = cluster
  const hadAll = engine.standing()?.members.find(({ id }) => id === node)?.voter === true
  await revokeCodesOf(engine.records, node)
  // Should this agent end in between, there is none already.
  const revoked = hadAll ? await revokeGood(engine.records, context.now()) : []
  await engine.expel(node)
  if (hadAll) {
    // Until then it could make others.
    revoked.push(...(await revokeGood(engine.records, context.now()).catch(() => [])))
    await followCodes(cluster).catch(() => {})
  }
  // It may be away, and is called again then.
  void sayFarewell(cluster).catch((error: unknown) =>
    context.log.debug({ err: error }, 'who was removed could not be told'),
  )
  return revoked
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
  const { secret, node_id, address, certificate, authority } = body as Record<string, unknown>
  if (typeof secret !== 'string' || secret.length > 256) throw badRequest('secret is required')
  if (typeof node_id !== 'string' || !NODE_ID.test(node_id)) throw badRequest('node_id: must be the name of a node')
  if (typeof address !== 'string') throw badRequest('address is required')
  const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= 4096
  if (!isText(certificate) || !isText(authority)) {
    throw badRequest('certificate and authority are required: a node and its members must run the same version')
  }
  // Before a code is used up.
  return { secret, node: node_id, address: addressOf(address), shown: readShown({ certificate, authority }) }
}

/** At the node that comes: becomes a member by a code. @throws ApiError */
export async function joinByCode(cluster: Cluster, text: string): Promise<Code> {
  cluster.require()
  const { engine, context } = cluster
  const { now, config } = context
  const code = readCode(text, now())
  if (engine.standing()) throw conflict('IN_CLUSTER', 'this node is in a cluster already: leave it first')
  const address = addressOf(config.text('cluster_address'))
  const made = await makeOwn(code.cluster, { node: engine.self, address }, now())
  const asked = { secret: code.secret, node_id: engine.self, address, ...shownBy(made) }
  const { place, admission } = await admittedBySomeone(code, asked)
  const trust = { ca: admission.authorities.join(''), cert: made.certificate, key: made.key, from: address }
  // Otherwise the members would wait for this node for an hour.
  const withdraw = async () => {
    const answer = await post(place, '/withdraw', {}, trust, WITHDRAW_MS)
    return 'removed' in answer && answer.removed === true
  }
  // A member of an earlier version does not know the path, which is as good as no answer.
  const mayCome = () =>
    post(place, ENTRY, {}, trust, ENTRY_MS).catch((error: ApiError) => {
      throw error.status === 403 ? conflict('WITHDRAWN', WITHDRAWN) : error
    })
  await engine.enter(admission, made, withdraw, mayCome)
  return code
}

/** Asks the members that the code names, one after the other, until one can be reached. */
async function admittedBySomeone(
  code: Code,
  asked: { address: string },
): Promise<{ place: string; admission: Admission }> {
  const silent: string[] = []
  for (const [at, place] of code.addresses.entries()) {
    let ca: string
    try {
      const fingerprint = (at === 0 ? code.fingerprint : code.other_fingerprints?.[at - 1]) ?? ''
      ca = await authorityAt(place, fingerprint, asked.address)
    } catch (error) {
      silent.push(`${place}: ${(error as Error).message}`)
      continue
    }
    return { place, admission: await admittedAt(place, asked, ca) }
  }
  throw unavailable(`no member can be reached (${silent.join('; ')})`)
}

/** What a member said, not that it said nothing: then it may still be at it. etcd takes in one node at a time. */
const isBusy = (error: unknown): boolean =>
  error instanceof ApiError &&
  error.code === 'REFUSED' &&
  (error.status === 503 || (error.status === 409 && error.message.includes(NOT_COME_YET)))

/**
 * A member answers 503 while its etcd starts anew, as it does when another node has just been admitted, and 409 until that
 * one has come. A code that was used serves the same node with the same key once more, so asking again is safe.
 */
async function admittedAt(place: string, asked: { address: string }, ca: string): Promise<Admission> {
  const end = performance.now() + BUSY_MS
  for (;;) {
    try {
      return (await post(place, '/join', asked, { ca, from: asked.address }, ADMIT_MS)) as unknown as Admission
    } catch (error) {
      if (!isBusy(error) || performance.now() > end) throw error
      await sleep(AGAIN_MS)
    }
  }
}

/**
 * The certificate of the authority of the member at `place`, PEM, as it shows it: the one with this fingerprint. Nothing is said
 * to whoever shows another one, and who merely shows the right one is found out by the next connection, which verifies.
 */
function authorityAt(place: string, fingerprint: string, from: string): Promise<string> {
  const { address: host, port } = splitPlace(place) ?? { address: '', port: 0 }
  return new Promise((resolve, reject) => {
    const where: ConnectionOptions & TcpSocketConnectOpts = { host, port, ...sourceOf(from, host) }
    const options = { ...where, rejectUnauthorized: false, minVersion: TLS_MIN_VERSION } as const
    const socket = connect(options, () => {
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
  /** Address of this node. */
  from: string
}

/** By which the members know this node: once it is admitted they let it in from there alone. */
const sourceOf = (from: string, host: string) => (isIPv6(from) === isIPv6(host) ? { localAddress: from } : {})

/** @throws ApiError as the member answers it; 503 when none comes */
function post(place: string, path: string, body: object, { from, ...trust }: Trust, ms: number): Promise<object> {
  const { address: host, port } = splitPlace(place) ?? { address: '', port: 0 }
  const text = JSON.stringify(body)
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  return new Promise((resolve, reject) => {
    const failed = (error: Error) =>
      reject(unavailable(`the member at ${place} does not answer: ${error.message}`, error))
    const source = sourceOf(from, host)
    const options: RequestOptions = { host, port, ...source, path, method: 'POST', headers, ...trust }
    const request = https.request({ ...options, minVersion: TLS_MIN_VERSION, agent: false }, async (response) => {
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
  const own = standing.members.filter(({ id }) => id === engine.self)
  const others = standing.members.filter(({ id, voter, trust }) => id !== engine.self && voter && trust !== undefined)
  return {
    cluster: standing.cluster,
    addresses: [...own, ...others].map(({ address }) => placeText(address, port)),
    fingerprint: fingerprint256(issuerOf(tls)),
    other_fingerprints: others.map(({ trust }) => trust?.shows ?? ''),
    secret,
    expires_at: expiresAt,
  }
}
