/** What somebody keeps who was a member, and who asks the ports of a cluster by it. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { encodePassed } from '../../../core/transport/elsewhere.ts'
import type { ClusterNode } from '../../../test/cluster.ts'
import type { Netns } from '../../../test/netns.ts'
import { makeOwn, shownBy } from '../authority.ts'
import { certify, publicKeyOf } from '../certificates.ts'
import { CALLER } from '../mesh/peers.ts'

/** Asks as one who has `files`; says the status, or how the connection ended. */
const ASK = `
const [options, body] = JSON.parse(process.argv[1])
const request = require('node:https').request({ ...options, rejectUnauthorized: false, agent: false }, (response) => {
  console.log(response.statusCode)
  process.exit(0)
})
setTimeout(() => request.destroy(Object.assign(new Error(), { code: 'SILENT' })), 2500).unref()
request.once('error', ({ code }) => console.log(code))
request.end(body)`

export interface Kept {
  certificate: string
  key: string
}
export interface Question {
  host: string
  port: number
  path: string
  method?: string
  headers?: Record<string, string>
  body?: string
}

export async function ask(
  ns: Netns,
  { certificate: cert, key }: Kept,
  { body = '', ...question }: Question,
): Promise<string> {
  const words = [
    'netns',
    'exec',
    ns.name,
    process.execPath,
    '-e',
    ASK,
    JSON.stringify([{ ...question, cert, key }, body]),
  ]
  return (await promisify(execFile)('ip', words)).stdout.trim()
}

/** By what it kept, and by certificates that it makes of it: of its own name and address, and of those of member `as`. */
export async function keptBy({ agent, id, address }: ClusterNode, as: ClusterNode): Promise<Record<string, Kept>> {
  const read = (name: string) => readFileSync(join(agent.stateDir, 'cluster', name), 'utf8')
  const key = read('key.pem')
  const kept: Record<string, Kept> = { own: { certificate: read('cert.pem'), key } }
  const files = readdirSync(join(agent.stateDir, 'cluster'))
  const [certificate, authorityKey] = files.includes('authority-key.pem')
    ? ['authority.pem', 'authority-key.pem']
    : ['ca.pem', 'ca-key.pem']
  const authority = { certificate: read(certificate), key: read(authorityKey) }
  const publicKey = publicKeyOf(key)
  for (const [name, subject] of Object.entries({
    new: { node: id, address },
    forged: { node: as.id, address: as.address },
  })) {
    kept[name] = { certificate: await certify(authority, { ...subject, publicKey }, new Date()), key }
  }
  return kept
}

export const peerPaths = (host: string): Question[] => [
  { host, port: 7074, path: '/members' },
  {
    host,
    port: 7074,
    path: '/raft',
    method: 'POST',
    headers: { 'X-Server-From': '1', 'X-Server-Version': '3.4.0' },
    body: 'x',
  },
  { host, port: 7074, path: '/raft/stream/message/1' },
]
/** As a member says who calls, and for whom. */
export const asOperator = {
  'x-node': 'n2',
  [CALLER]: encodePassed({ address: '', caller: { kind: 'operator', label: 'token' }, requestId: 'r-1' }),
}
export const doorPaths = (host: string): Question[] => [
  { host, port: 7073, path: '/pass/api/v1/rules', headers: asOperator },
  { host, port: 7073, path: '/authorities' },
  ...['/withdraw', '/entry', '/farewell'].map((path) => ({ host, port: 7073, path, method: 'POST' })),
]

/** Requests at `at` to be admitted by `codes`: by the keys that `node` has, and by new ones. */
export async function joinsBy(
  codes: readonly string[],
  { agent, id, address }: ClusterNode,
  at: ClusterNode,
): Promise<[Kept, Question][]> {
  const read = (name: string) => readFileSync(join(agent.stateDir, 'cluster', name), 'utf8')
  const had = { certificate: read('cert.pem'), key: read('key.pem') }
  const fresh = await makeOwn('x', { node: id, address }, new Date())
  const shown = { had: { certificate: had.certificate, authority: read('authority.pem') }, fresh: shownBy(fresh) }
  return codes.flatMap((code) => {
    const { secret } = JSON.parse(Buffer.from(code, 'base64').toString()) as { secret: string }
    const by = (what: typeof shown.had) => ({
      ...{ host: at.address, port: 7073, path: '/join', method: 'POST' },
      body: JSON.stringify({ secret, node_id: id, address, ...what }),
    })
    return [
      [had, by(shown.had)],
      [fresh, by(shown.fresh)],
    ] as [Kept, Question][]
  })
}
export const isAnswered = (said: string) => /^\d+$/.test(said)
export const isRefused = (said: string) => said === '403' || !isAnswered(said)
