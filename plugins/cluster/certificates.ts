/**
 * The certificates by which members know each other: each member has an authority of its own and one EC P-256 certificate of it, which is
 * server and client alike (RFC 5280).
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  webcrypto,
  X509Certificate,
} from 'node:crypto'
import type * as x509 from '@peculiar/x509'
import { badRequest } from '../../core/errors.ts'

export interface Authority {
  /** PEM. */
  certificate: string
  key: string
}

/** Whom a certificate is for. */
export interface Subject {
  node: string
  address: string
  /** PEM, SubjectPublicKeyInfo of an EC P-256 key. */
  publicKey: string
}

/**
 * That of an authority is without end (RFC 5280 §4.1.2.5) and without a beginning: it is trusted while its node is a member. The clock may
 * have been wrong when it was made, and it is never made anew.
 */
const ALWAYS = { notBefore: new Date('2000-01-01T00:00:00Z'), notAfter: new Date('9999-12-31T23:59:59Z') }
const MEMBER_DAYS = 365
const DAY_MS = 86_400_000
/** Members whose clocks are a little slow must accept what was made just now. */
const BACKDATE_DAYS = 1
const P256 = { name: 'ECDSA', namedCurve: 'P-256' }
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' }

/** A new key of a member: the private one in PKCS #8, the public one as SubjectPublicKeyInfo, both PEM. */
export function makeKey(): { key: string; publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { key: pem(privateKey, 'pkcs8'), publicKey: pem(publicKey, 'spki') }
}

/** By which a member is known beside its certificate: SHA-256 of its public key (SubjectPublicKeyInfo), hex. */
export const fingerprintOf = (key: KeyObject): string =>
  createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex')

export const publicKeyOf = (key: string): string => pem(createPublicKey(key), 'spki')

/** An authority of a member of a cluster. */
export async function makeAuthority(cluster: string, node: string): Promise<Authority> {
  const lib = await library()
  const { key, publicKey } = makeKey()
  const keys = { privateKey: await privateKeyOf(key), publicKey: await importPublic(publicKey) }
  const certificate = await lib.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serialNumber(),
      // Another name than that of the certificate which it signs.
      name: [{ O: [`stratum cluster ${cluster}`] }, { CN: [node] }],
      ...ALWAYS,
      signingAlgorithm: SIGNATURE,
      keys,
      extensions: [
        new lib.BasicConstraintsExtension(true, 0, true),
        new lib.KeyUsagesExtension(lib.KeyUsageFlags.keyCertSign | lib.KeyUsageFlags.cRLSign, true),
        await lib.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  )
  return { certificate: `${certificate.toString('pem')}\n`, key }
}

/** PEM of a member's certificate; lives a year (see `isStale`). @throws ApiError 400 for another kind of key */
export async function certify(authority: Authority, { node, address, publicKey }: Subject, now: Date): Promise<string> {
  const lib = await library()
  const own = await importPublic(publicKey)
  const issuer = new lib.X509Certificate(authority.certificate)
  const certificate = await lib.X509CertificateGenerator.create(
    {
      serialNumber: serialNumber(),
      issuer: issuer.subjectName,
      subject: [{ CN: [node] }],
      ...lifetime(now),
      signingAlgorithm: SIGNATURE,
      publicKey: own,
      signingKey: await privateKeyOf(authority.key),
      extensions: [
        new lib.BasicConstraintsExtension(false, undefined, true),
        new lib.KeyUsagesExtension(lib.KeyUsageFlags.digitalSignature, true),
        new lib.ExtendedKeyUsageExtension([lib.ExtendedKeyUsage.serverAuth, lib.ExtendedKeyUsage.clientAuth]),
        new lib.SubjectAlternativeNameExtension([
          { type: 'dns', value: node },
          ...[...new Set([address, '127.0.0.1'])].map((value) => ({ type: 'ip' as const, value })),
        ]),
        await lib.SubjectKeyIdentifierExtension.create(own, false, webcrypto),
        await lib.AuthorityKeyIdentifierExtension.create(await issuer.publicKey.export(webcrypto), false, webcrypto),
      ],
    },
    webcrypto,
  )
  return `${certificate.toString('pem')}\n`
}

/** Time for another one: half of its life is over, or it has not begun, because it was made by a wrong clock. */
export function isStale(certificate: string, now: Date): boolean {
  const { validFrom, validTo } = new X509Certificate(certificate)
  const [from, to, time] = [Date.parse(validFrom), Date.parse(validTo), now.getTime()]
  return time < from || time > (from + to) / 2
}

const serialNumber = () => `01${randomBytes(15).toString('hex')}`
const lifetime = (now: Date) => ({
  notBefore: new Date(now.getTime() - BACKDATE_DAYS * DAY_MS),
  notAfter: new Date(now.getTime() + MEMBER_DAYS * DAY_MS),
})
const pem = (key: KeyObject, type: 'pkcs8' | 'spki'): string =>
  key.export({ type: type as 'spki', format: 'pem' }).toString()

async function library(): Promise<typeof x509> {
  await import('reflect-metadata')
  return import('@peculiar/x509')
}

const privateKeyOf = (key: string) =>
  webcrypto.subtle.importKey('jwk', createPrivateKey(key).export({ format: 'jwk' }), P256, false, ['sign'])

async function importPublic(text: string): Promise<webcrypto.CryptoKey> {
  try {
    const key = createPublicKey(text)
    if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw new TypeError('another curve')
    return await webcrypto.subtle.importKey('jwk', key.export({ format: 'jwk' }), P256, true, ['verify'])
  } catch {
    throw badRequest('public_key: not the PEM of an EC P-256 public key')
  }
}
