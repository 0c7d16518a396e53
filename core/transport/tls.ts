/**
 * The node's one TLS certificate, shared by REST, gRPC and the event stream (D30): the operator's PEM files when
 * configured, else a self-signed one that is made once and kept, so that clients can pin its key.
 */
import {
  constants,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  webcrypto,
  X509Certificate,
} from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { createSecureContext, type Server, type TlsOptions } from 'node:tls'
import { writePrivateFile } from '../private-file.ts'
import { type WatchOptions, watchFiles } from '../watch-files.ts'

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
  /** All addresses of the node; an IPv6 zone is dropped. Asked only when a certificate is made. Never rejects. */
  readonly addresses: () => Promise<readonly string[]>
  readonly now: Date
}

/** Why there is no certificate. Nothing may be served then; the message says what to do. */
export class CertificateError extends Error {
  readonly code = 'TLS_CERTIFICATE'
}

/** Older protocol versions are refused on every port (D30). */
export const TLS_MIN_VERSION = 'TLSv1.2'

/** The handshake must be over by then, however slowly the other side sends, in ms. */
export const HANDSHAKE_MS = 10_000

/** Those of TLS 1.3, and of TLS 1.2 what RFC 9325 §4.2 recommends: forward secrecy and authenticated encryption. */
const CIPHERS = [
  ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
  ...['ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-RSA-AES256-GCM-SHA384'],
  ...['ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ...['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
].join(':')
/** OpenSSL's own list has ffdhe8192 in it: a stranger could make the agent compute for 0.1 s a handshake. */
const GROUPS = 'X25519:P-256:P-384'

/**
 * What all three ports speak, for the making of a server and for `setSecureContext`, which forgets what it is not told.
 * No renegotiation, which lets a client make the server compute, and no tickets: their key would have to be changed
 * often for forward secrecy, and resuming a session saves a quarter of a millisecond.
 */
export const tlsOptions = ({ cert, key }: Pick<Certificate, 'cert' | 'key'>): TlsOptions => ({
  cert,
  key,
  minVersion: TLS_MIN_VERSION,
  ciphers: CIPHERS,
  honorCipherOrder: true,
  ecdhCurve: GROUPS,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_TICKET,
  handshakeTimeout: HANDSHAKE_MS,
})

/** Node only tells of a handshake that takes too long: without this the connection would stay for ever. */
export function endSlowHandshakes(server: Server): void {
  server.on('tlsClientError', (_error, socket) => void socket.destroy())
}

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
  parse(() => createSecureContext(tlsOptions({ cert, key })), `${certPath} cannot be served`)
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
        new x509.SubjectAlternativeNameExtension(alternativeNames(options.nodeName, await options.addresses())),
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
function alternativeNames(nodeName: string, own: readonly string[]): { type: 'dns' | 'ip'; value: string }[] {
  const addresses = [...own, nodeName, '127.0.0.1', '::1'].map((text) => text.replace(/%.*$/, ''))
  const names = [nodeName, 'localhost'].filter((name) => isIP(name) === 0 && DNS_NAME.test(name))
  return [
    ...[...new Set(names)].map((value) => ({ type: 'dns' as const, value })),
    ...[...new Set(addresses.filter((text) => isIP(text) !== 0))].map((value) => ({ type: 'ip' as const, value })),
  ]
}

export interface CertificateWatchOptions extends WatchOptions {
  /** The files changed but cannot be served (yet); the certificate in use stays. */
  readonly onProblem?: (error: unknown) => void
  /** The files were looked at and can be served, whether they are other ones or not. */
  readonly onUsable?: () => void
}

/**
 * Tells when the files behind a certificate were rewritten or replaced, with the new material, once it is valid.
 * Never throws, and never keeps the process alive.
 * @returns stops watching
 */
export function watchCertificate(
  certificate: Certificate,
  onChange: (certificate: Certificate) => void,
  { onProblem = () => {}, onUsable = () => {}, ...options }: CertificateWatchOptions = {},
): () => void {
  const { certPath, keyPath } = certificate
  let current = certificate

  function look(): void {
    try {
      const found = readCertificate(certPath, keyPath)
      const same = found.cert === current.cert && found.key === current.key
      current = found
      if (!same) onChange(found)
      onUsable()
    } catch (error) {
      onProblem(error)
    }
  }

  return watchFiles([certPath, keyPath], look, options)
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
