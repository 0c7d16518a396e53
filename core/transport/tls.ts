/**
 * The node's one TLS certificate, shared by REST, gRPC and the event stream (D30): the operator's PEM files when
 * configured, else a self-signed one that is made once and kept, so that clients can pin its key.
 */
import {
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  webcrypto,
  X509Certificate,
} from 'node:crypto'
import { existsSync, readFileSync, unwatchFile, watchFile } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { writePrivateFile } from '../private-file.ts'

export interface Certificate {
  /** PEM: the leaf, then any intermediates. */
  readonly cert: string
  /** PEM. */
  readonly key: string
  /** `BEGIN PUBLIC KEY` of the leaf, for pinning. */
  readonly spkiPem: string
  /** SHA-256 of the leaf, `AA:BB:…`. */
  readonly fingerprint256: string
  /** An expired certificate is served all the same: clients that pin the key still work. Warn the operator. */
  readonly notAfter: Date
  readonly certPath: string
  readonly keyPath: string
}

export interface CertificateOptions {
  /** PEM files of the operator; both or none. */
  readonly certPath?: string | undefined
  readonly keyPath?: string | undefined
  /** Holds `tls/cert.pem` and `tls/key.pem` when nothing is configured. */
  readonly stateDir: string
  readonly nodeName: string
  /** All addresses of the node; an IPv6 zone is dropped. */
  readonly addresses: readonly string[]
  readonly now: Date
}

/** Why there is no certificate. Nothing may be served then; the message says what to do. */
export class CertificateError extends Error {
  readonly code = 'TLS_CERTIFICATE'
}

/** Older protocol versions are refused on every port (D30). */
export const TLS_MIN_VERSION = 'TLSv1.2'

const YEARS = 10
/** Clients whose clock is a little slow must accept a certificate that was made just now. */
const BACKDATE_MS = 86_400_000
/** X.520 upper bound of a common name. */
const COMMON_NAME_MAX = 64
/** RFC 1123 labels. */
const DNS_NAME = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i

/** @throws CertificateError */
export async function loadCertificate(options: CertificateOptions): Promise<Certificate> {
  const { certPath, keyPath } = options
  if (!certPath && !keyPath) return selfSigned(options)
  if (!certPath) throw new CertificateError('tls_key is set without tls_cert: set both, or none for a self-signed one')
  if (!keyPath) throw new CertificateError('tls_cert is set without tls_key: set both, or none for a self-signed one')
  return readCertificate(certPath, keyPath)
}

/** Reads and checks a pair of PEM files. @throws CertificateError */
export function readCertificate(certPath: string, keyPath: string): Certificate {
  const cert = readPem(certPath, 'certificate')
  const key = readPem(keyPath, 'key')
  const leaf = parse(() => new X509Certificate(cert), `${certPath} holds no PEM certificate`)
  const privateKey = parse(() => createPrivateKey(key), `${keyPath} holds no unencrypted PEM private key`)
  if (!leaf.checkPrivateKey(privateKey)) {
    throw new CertificateError(`the key ${keyPath} does not belong to the certificate ${certPath}`)
  }
  // OpenSSL refuses more than a mismatch (weak keys, broken chains), and would do so only at the first connection.
  parse(() => createSecureContext({ cert, key, minVersion: TLS_MIN_VERSION }), `${certPath} cannot be served`)
  return {
    cert,
    key,
    spkiPem: leaf.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    fingerprint256: leaf.fingerprint256,
    notAfter: new Date(leaf.validTo),
    certPath,
    keyPath,
  }
}

async function selfSigned(options: CertificateOptions): Promise<Certificate> {
  const certPath = join(options.stateDir, 'tls', 'cert.pem')
  const keyPath = join(options.stateDir, 'tls', 'key.pem')
  try {
    if (existsSync(certPath)) {
      const kept = readCertificate(certPath, keyPath)
      if (options.now < kept.notAfter) return kept
    }
    // A key without a certificate (a crash between the two) or with an expired one is used again: pins stay valid.
    const key = existsSync(keyPath) ? readPem(keyPath, 'key') : makeKey(keyPath)
    writePrivateFile(certPath, await makeCertificate(createPrivateKey(key), options))
    return readCertificate(certPath, keyPath)
  } catch (error) {
    const why = error instanceof Error ? error.message : error
    const advice = 'restore both files, or remove both and a new certificate is made, which clients that pin must learn'
    throw new CertificateError(`the self-signed certificate cannot be used: ${why}; ${advice}`, { cause: error })
  }
}

function makeKey(path: string): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  writePrivateFile(path, pem)
  return pem
}

/** PEM of a self-signed server certificate for a P-256 key (RFC 5280). */
async function makeCertificate(privateKey: KeyObject, options: CertificateOptions): Promise<string> {
  // Loaded only here: the library costs several MB that an agent with a certificate never needs.
  await import('reflect-metadata')
  const x509 = await import('@peculiar/x509')
  const keys = await cryptoKeys(privateKey)
  const notBefore = new Date(options.now.getTime() - BACKDATE_MS)
  const notAfter = new Date(options.now)
  notAfter.setUTCFullYear(notAfter.getUTCFullYear() + YEARS)
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: `01${randomBytes(15).toString('hex')}`,
      name: [{ CN: [options.nodeName.slice(0, COMMON_NAME_MAX) || 'stratum-node'] }],
      notBefore,
      notAfter,
      signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension(alternativeNames(options)),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  )
  return `${certificate.toString('pem')}\n`
}

async function cryptoKeys(privateKey: KeyObject): Promise<webcrypto.CryptoKeyPair> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
  const { kty, crv, x, y, d } = privateKey.export({ format: 'jwk' })
  if (crv !== 'P-256' || !kty || !x || !y || !d)
    throw new CertificateError('the key of the self-signed certificate must be EC P-256')
  const point = { kty, crv, x, y }
  return {
    privateKey: await webcrypto.subtle.importKey('jwk', { ...point, d }, algorithm, false, ['sign']),
    publicKey: await webcrypto.subtle.importKey('jwk', point, algorithm, true, ['verify']),
  }
}

/** Node name, localhost, and every address, each once. */
function alternativeNames(options: CertificateOptions): { type: 'dns' | 'ip'; value: string }[] {
  const addresses = [...options.addresses, options.nodeName, '127.0.0.1', '::1'].map((text) => text.replace(/%.*$/, ''))
  const names = [options.nodeName, 'localhost'].filter((name) => isIP(name) === 0 && DNS_NAME.test(name))
  return [
    ...[...new Set(names)].map((value) => ({ type: 'dns' as const, value })),
    ...[...new Set(addresses.filter((text) => isIP(text) !== 0))].map((value) => ({ type: 'ip' as const, value })),
  ]
}

export interface WatchOptions {
  /** How often the files are looked at, in ms. */
  readonly intervalMs?: number
  /** How long both files must be quiet before they are read, in ms. */
  readonly debounceMs?: number
  /** The files changed but cannot be served (yet); the certificate in use stays. */
  readonly onProblem?: (error: unknown) => void
}

/**
 * Tells when the files behind a certificate were rewritten or replaced, with the new material, once it is valid.
 * Looks at the files by stat, which follows symbolic links and sees a rename and a mount alike, where inotify does not.
 * Never throws, and never keeps the process alive.
 * @returns stops watching
 */
export function watchCertificate(
  certificate: Certificate,
  onChange: (certificate: Certificate) => void,
  { intervalMs = 2000, debounceMs = 500, onProblem = () => {} }: WatchOptions = {},
): () => void {
  const { certPath, keyPath } = certificate
  let current = certificate
  let timer: NodeJS.Timeout | undefined

  function look(): void {
    try {
      const found = readCertificate(certPath, keyPath)
      if (found.cert === current.cert && found.key === current.key) return
      current = found
      onChange(found)
    } catch (error) {
      onProblem(error)
    }
  }

  function soon(): void {
    clearTimeout(timer)
    timer = setTimeout(look, debounceMs).unref()
  }

  for (const path of [certPath, keyPath]) watchFile(path, { interval: intervalMs, persistent: false }, soon)
  // What changed between the load and now is in nobody's first stat.
  soon()
  return () => {
    clearTimeout(timer)
    for (const path of [certPath, keyPath]) unwatchFile(path, soon)
  }
}

function readPem(path: string, what: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // Errors of node:fs carry a code.
    const { code, message } = error as NodeJS.ErrnoException
    const why = code === 'ENOENT' ? 'does not exist' : `cannot be read: ${message}`
    throw new CertificateError(`the TLS ${what} ${path} ${why}`, { cause: error })
  }
}

function parse<T>(work: () => T, problem: string): T {
  try {
    return work()
  } catch (error) {
    throw new CertificateError(`${problem}: ${error instanceof Error ? error.message : error}`, { cause: error })
  }
}
