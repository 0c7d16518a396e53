/** The cluster's certificate authority, which every member has (`/meta/ca`), so that any can admit a node. */
import { type Authority, certify, isHalfOver, publicKeyOf } from './certificates.ts'
import type { Etcd } from './etcd/client.ts'
import type { Files } from './files.ts'
import { META } from './keys.ts'
import { unavailable } from './membership.ts'
import type { Self } from './tables.ts'

/** @throws ApiError 503 */
export async function authorityIn(etcd: Etcd): Promise<Authority> {
  const kept = await etcd.get(META.ca, { local: true })
  if (kept === undefined) throw unavailable("the cluster's certificate authority is missing")
  return JSON.parse(kept.value)
}

/** Signs this node's key anew when half of its certificate's life is over; etcd reads the file for every connection. */
export async function refreshCertificate(
  etcd: Etcd,
  files: Files,
  { node, address }: Self,
  now: Date,
): Promise<boolean> {
  const tls = files.tls()
  if (tls === undefined || !isHalfOver(tls.certificate, now)) return false
  const subject = { node, address, publicKey: publicKeyOf(tls.key) }
  files.keep({ ...tls, certificate: await certify(await authorityIn(etcd), subject, now) })
  return true
}
