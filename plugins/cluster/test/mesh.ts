/** Two agents in this process, of which one passes calls on to the other through its door, without a cluster behind them. */
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import https from 'node:https'
import type { RestListener } from '../../../core/transport/listener.ts'
import { type Answer, type BuildAgentOptions, type BuiltAgent, buildAgent, TOKEN } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { certify, fingerprintOf, makeAuthority, makeKey } from '../certificates.ts'
import { type DoorParts, openDoor } from '../mesh/door.ts'
import { openPeers, type PassCounts } from '../mesh/peers.ts'
import type { Standing } from '../standing.ts'

const ADDRESS = '127.0.0.1'

export interface Material {
  ca: string
  certificate: string
  key: string
}

export interface Mesh {
  /** The member called, `n1`, and the one named, `n2`. */
  a: BuiltAgent
  b: BuiltAgent
  /** Port of the door of `n2`. */
  port: number
  door: RestListener
  counts: PassCounts
  /** What `n1` believes of `n2`; listeners are told. */
  setOnline(online: boolean): void
  /** What `n1` shows. */
  own: Material
  /** From now on `n1` knows `n2` by another key. */
  otherKey(): void
  /** A certificate of the cluster for a node, or of another authority. */
  material(node: string, foreign?: boolean): Promise<Material>
  /** Calls `n1` from `from`, for `n2` unless the headers say otherwise. */
  pass(method: string, path: string, options?: PassOptions): Promise<Raw>
}

export interface MeshTestOptions {
  a?: BuildAgentOptions
  b?: BuildAgentOptions
  /** What the door of `n2` does with a code. */
  join?: DoorParts['join']
}

export interface PassOptions {
  from?: string
  body?: string
  headers?: Record<string, string>
}

export interface Raw extends Answer {
  bytes: Buffer
}

export async function mesh(t: Scope, options: MeshTestOptions = {}): Promise<Mesh> {
  const [a, b] = [await buildAgent(t, options.a), await buildAgent(t, options.b)]
  const now = new Date()
  const [authority, stranger] = [await makeAuthority('c1', 'all'), await makeAuthority('c2', 'all')]
  const material = async (node: string, foreign = false): Promise<Material> => {
    const { key, publicKey } = makeKey()
    const by = foreign ? stranger : authority
    return { ca: by.certificate, key, certificate: await certify(by, { node, address: ADDRESS, publicKey }, now) }
  }
  const [own, other] = [await material('n1'), await material('n2')]
  const fingerprint = ({ certificate }: Material) => fingerprintOf(new X509Certificate(certificate).publicKey)
  const parts: DoorParts = {
    elsewhere: b.agent.elsewhere,
    address: ADDRESS,
    port: 0,
    tls: other,
    members: () => [{ id: 'n1', address: ADDRESS, key: fingerprint(own) }],
    join: options.join ?? (async () => ({})),
    withdraw: async (node) => ({ node }),
    mayCome: async (node) => ({ node }),
    authorities: () => ({ authorities: [other.ca] }),
    dismissed: async () => ({ dismissed: true }),
    problem: (error) => {
      throw error
    },
  }
  const door = await openDoor(parts)
  t.teardown(() => door.close(0))
  const port = Number(door.where.split(':').at(-1))

  let online = true
  let known = fingerprint(other)
  const listeners = new Set<() => void>()
  const peer = { address: ADDRESS, voter: true, lastSeen: undefined }
  const standing = (): Standing => ({
    cluster: 'c1',
    writable: true,
    leader: 'n1',
    isLeader: true,
    acts: true,
    members: [
      { id: 'n1', online: true, ...peer },
      { id: 'n2', online, ...peer, key: known },
    ],
  })
  const counts = { answered: 0, unreachable: 0 }
  const peers = openPeers(
    {
      self: 'n1',
      standing,
      tls: () => own,
      onChange(listener) {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
    },
    port,
    counts,
  )
  t.teardown(() => peers.close())
  // What the area has put there knows no other member.
  a.agent.elsewhere.peers.clear()
  a.agent.elsewhere.peers.add(peers)
  return {
    a,
    b,
    port,
    door,
    counts,
    material,
    own,
    otherKey() {
      known = fingerprint(own)
    },
    setOnline(next) {
      online = next
      for (const listener of listeners) listener()
    },
    pass: (method, path, given) => call(a, method, path, { ...given, headers: { 'x-node': 'n2', ...given?.headers } }),
  }
}

/** As it comes, undecoded. */
export async function call(
  { agent }: BuiltAgent,
  method: string,
  path: string,
  options: PassOptions = {},
): Promise<Raw> {
  const { from = ADDRESS, body, headers = {} } = options
  const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
  const answer = await agent.app.inject({
    method: method as 'GET',
    url: path,
    remoteAddress: from,
    headers: { authorization: `Bearer ${TOKEN}`, ...type, ...headers },
    ...(body !== undefined && { payload: body }),
  })
  const isJson = answer.headers['content-type']?.toString().startsWith('application/json')
  const zipped = answer.headers['content-encoding'] !== undefined
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.payload,
    bytes: answer.rawPayload,
    body: isJson && !zipped && answer.payload !== '' ? answer.json() : {},
  }
}

/** A call at a door by whoever has `trust`. */
export async function knock(
  port: number,
  path: string,
  { method = 'GET', headers = {}, body, trust = {} }: KnockOptions = {},
): Promise<{ status: number; headers: Answer['headers']; text: string }> {
  const { ca, certificate: cert, key } = trust
  const tls = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }), rejectUnauthorized: false }
  const request = https.request({ host: ADDRESS, port, path, method, headers, ...tls, agent: false })
  request.end(body)
  const [response] = await once(request, 'response')
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return { status: response.statusCode, headers: response.headers, text }
}

export interface KnockOptions {
  method?: string
  headers?: Record<string, string>
  body?: string
  trust?: Partial<Material>
}
