/**
 * Tells a member that it was removed. It may have been away, or cut off before its etcd heard of it, and from its removal on it
 * reaches nobody: so the members call it, until it knows or a week is over.
 */
import { X509Certificate } from 'node:crypto'
import https from 'node:https'
import type { TLSSocket } from 'node:tls'
import { TLS_MIN_VERSION } from '../../core/transport/tls.ts'
import { fingerprintOf } from './certificates.ts'
import type { Cluster } from './cluster.ts'
import { put, remove } from './etcd/words.ts'
import { GONE, goneKey, partsOf } from './keys.ts'
import { fieldsIn, isAddress, isTime } from './reading.ts'
import type { MemberRecord } from './standing.ts'

export const FAREWELL = '/farewell'
const KEPT_MS = 7 * 86_400_000
const ANSWER_MS = 5000

/** Where somebody was who is a member no more, and by which key it is known. */
interface Gone {
  address: string
  key: string
  /** ISO 8601. */
  at: string
}

/** What is to be noted at a removal; nothing of one that never had a key and so never came. */
export const noteFarewell = (node: string, { address, key }: Partial<MemberRecord>, now: Date) =>
  address === undefined || key === undefined
    ? []
    : [put(goneKey(node), JSON.stringify({ address, key, at: now.toISOString() } satisfies Gone))]

function goneIn(text: string): Gone | undefined {
  const { address, key, at } = fieldsIn(text) ?? {}
  return isAddress(address) && typeof key === 'string' && isTime(at) ? { address, key, at } : undefined
}

/** Calls each of them once. Those that are silent are called again next time. @throws ApiError 503 */
export async function sayFarewell({ engine, context }: Pick<Cluster, 'engine' | 'context'>): Promise<void> {
  const port = context.config.int('cluster_port')
  const all = await engine.records.list(GONE)
  await Promise.all(
    all.map(async ({ key, value }) => {
      const gone = goneIn(value)
      if (gone === undefined) return void (await engine.records.transact([], [remove(key)]))
      const [node = ''] = partsOf(key, GONE)
      const isBack = engine.standing()?.members.some(({ id, address }) => id === node || address === gone.address)
      const isOver = context.now().getTime() - Date.parse(gone.at) > KEPT_MS
      if (isBack || isOver || (await call(engine, gone, port))) await engine.records.transact([], [remove(key)])
    }),
  )
}

/** Whether it answered that it knows. Nothing secret is said to it; that it is the one is told by its key. */
function call(
  { standing, self, tls }: Cluster['engine'],
  { address: host, key: known }: Gone,
  port: number,
): Promise<boolean> {
  const [own, material] = [standing()?.members.find(({ id }) => id === self), tls()]
  if (own === undefined || material === undefined) return Promise.resolve(false)
  const { certificate: cert, key } = material
  return new Promise((resolve) => {
    const where = { host, port, localAddress: own.address, path: FAREWELL, method: 'POST', agent: false } as const
    const how = { cert, key, rejectUnauthorized: false, minVersion: TLS_MIN_VERSION } as const
    const request = https.request({ ...where, ...how }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.once('socket', (socket) =>
      socket.once('secureConnect', () => {
        const { raw } = (socket as TLSSocket).getPeerCertificate()
        const isIt = fingerprintOf(new X509Certificate(raw).publicKey) === known
        if (isIt) request.end()
        else request.destroy(new Error('somebody else is there'))
      }),
    )
    request.setTimeout(ANSWER_MS, () => request.destroy(new Error('no answer')))
    request.once('error', () => resolve(false))
  })
}
