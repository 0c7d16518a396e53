/** The cluster's certificate authority, which every member has (`/meta/ca`), so that any can admit a node. */
import { type Authority, certify, isStale, publicKeyOf } from './certificates.ts'
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

/** So that this node can sign its own key when no etcd answers, because its certificate is no good. */
export async function keepAuthority(etcd: Etcd, files: Files): Promise<void> {
  if (files.authorityKey() === undefined) files.keepAuthorityKey((await authorityIn(etcd)).key)
}

/** Signs this node's key anew when it is time; etcd reads the file for every connection. True: it was. */
export async function refreshCertificate(files: Files, { node, address }: Self, now: Date): Promise<boolean> {
  const [tls, key] = [files.tls(), files.authorityKey()]
  if (tls === undefined || key === undefined || !isStale(tls.certificate, now)) return false
  const subject = { node, address, publicKey: publicKeyOf(tls.key) }
  files.keep({ ...tls, certificate: await certify({ certificate: tls.ca, key }, subject, now) })
  return true
}
