/**
 * Every member has a certificate authority of its own, which signs its own certificate and no other; its key never leaves the node.
 * Members trust the authorities of those who are members.
 */
import { createPublicKey, X509Certificate } from 'node:crypto'
import { badRequest } from '../../core/errors.ts'
import { type Authority, certify, isStale, makeAuthority, makeKey, publicKeyOf } from './certificates.ts'
import type { Files, Tls } from './files.ts'
import type { Self } from './tables.ts'

/** What a member proves by that it is the one; all PEM. */
export interface Own {
  key: string
  certificate: string
  authority: Authority
}

/** A key, an authority, and the certificate of the one by the other. */
export async function makeOwn(
  cluster: string,
  { node, address }: Pick<Self, 'node' | 'address'>,
  now: Date,
): Promise<Own> {
  const authority = await makeAuthority(cluster, node)
  const { key, publicKey } = makeKey()
  return { key, authority, certificate: await certify(authority, { node, address, publicKey }, now) }
}

/** What a node shows that wants to be a member: its certificate and that of its authority, PEM. */
export interface Shown {
  certificate: string
  authority: string
}

export const shownBy = ({ certificate, authority }: Own): Shown => ({ certificate, authority: authority.certificate })

/**
 * One certificate each, as it is written here, and the public key of the first; that its authority signed it shows that whoever sent it has
 * that one's key. @throws ApiError 400
 */
export function readShown({ certificate, authority }: Shown): Shown & { publicKey: string } {
  const [own, ca] = [parsed(certificate, 'certificate'), parsed(authority, 'authority')]
  const curves = [own, ca].map(({ publicKey }) => publicKey.asymmetricKeyDetails?.namedCurve)
  if (curves.some((curve) => curve !== 'prime256v1')) throw badRequest('certificate, authority: keys must be EC P-256')
  if (!ca.ca || !ca.checkIssued(ca) || !ca.verify(ca.publicKey))
    throw badRequest('authority: must be a self-signed authority')
  if (own.ca || !own.checkIssued(ca) || !own.verify(ca.publicKey)) {
    throw badRequest('certificate: must be signed by the authority')
  }
  const publicKey = own.publicKey.export({ type: 'spki', format: 'pem' }).toString()
  return { certificate: own.toString(), authority: ca.toString(), publicKey }
}

function parsed(pem: string, field: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch {
    throw badRequest(`${field}: not the PEM of a certificate`)
  }
}

/** The certificates in a file of several. */
export const certificatesIn = (pem: string): string[] =>
  pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? []

/** SHA-256 of a certificate, `AA:BB:…`. */
export const fingerprint256 = (pem: string): string => new X509Certificate(pem).fingerprint256

/** Of each of several certificates, sorted: the same for the same ones. */
export const fingerprintsOf = (pems: Iterable<string>): string[] => [...new Set([...pems].map(fingerprint256))].sort()

/** PEM of who signed the certificate that this node shows; it is among those that it trusts. */
export function issuerOf({ ca, certificate }: Tls): string {
  const own = new X509Certificate(certificate)
  const signed = (pem: string) => {
    const { publicKey } = new X509Certificate(pem)
    return own.verify(publicKey)
  }
  return certificatesIn(ca).find(signed) ?? ''
}

/** Before etcd is started: no other member is left. */
export function trustNobodyElse(files: Files): void {
  const tls = files.tls()
  if (tls) files.keep({ ...tls, ca: issuerOf(tls) })
}

/** The certificate that this node shows, and its issuer. */
export const chainOf = (tls: Tls): string => tls.certificate + issuerOf(tls)

/** Signs this node's key anew when it is time; etcd reads the file for every connection. True: it was. */
export async function refreshCertificate(
  files: Files,
  me: Pick<Self, 'node' | 'address'>,
  now: Date,
): Promise<boolean> {
  const [tls, authority] = [files.tls(), files.authority()]
  if (tls === undefined || authority === undefined || !isStale(tls.certificate, now)) return false
  // Until all members trust its own one, a node that was a member before it had one has another sign.
  const former = files.formerKey()
  const isOwn = createPublicKey(authority.key).equals(new X509Certificate(issuerOf(tls) || tls.certificate).publicKey)
  const by = isOwn || former === undefined ? authority : { certificate: issuerOf(tls), key: former }
  await sign(files, tls, by, me, now)
  return true
}

/** From now on this node shows a certificate of its own authority. */
export async function showOwn(files: Files, me: Pick<Self, 'node' | 'address'>, now: Date): Promise<void> {
  const [tls, authority] = [files.tls(), files.authority()]
  if (tls && authority) await sign(files, tls, authority, me, now)
}

async function sign(
  files: Files,
  tls: Tls,
  by: Authority,
  { node, address }: Pick<Self, 'node' | 'address'>,
  now: Date,
): Promise<void> {
  const subject = { node, address, publicKey: publicKeyOf(tls.key) }
  const certificate = await certify(by, subject, now)
  // Whom this node trusts may have changed meanwhile.
  files.keep({ ...(files.tls() ?? tls), certificate })
}
