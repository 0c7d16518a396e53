/** The one key of a signed zone (D58): ECDSA P-256 with SHA-256, flags 257, which signs everything in it. */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { nameOf } from './names.ts'
import { octets } from './rdata.ts'

/** IANA DNSSEC algorithm numbers, digest algorithms; RFC 4034 §2.1. */
export const ALGORITHM = 13
const DIGEST = 2
const FLAGS = 257
const PROTOCOL = 3
/** Seconds; DS and DNSKEY alike. */
export const KEY_TTL = 3600

export interface Csk {
  key: KeyObject
  tag: number
  /** RDATA, a string of octets. */
  dnskey: string
  ds: string
}

/** A new key: PKCS8 DER in base64, as it is stored. */
export function newCsk(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64')
}

/** The stored key of a zone given in wire form. Throws Error for anything but a P-256 key. */
export function openCsk(zone: string, stored: string): Csk {
  const key = createPrivateKey({ key: Buffer.from(stored, 'base64'), format: 'der', type: 'pkcs8' })
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw new Error('the key of a zone must be of P-256')
  const { x = '', y = '' } = createPublicKey(key).export({ format: 'jwk' })
  const point = Buffer.concat([Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')])
  const dnskey = octets(FLAGS, 2) + octets(PROTOCOL, 1) + octets(ALGORITHM, 1) + point.toString('latin1')
  const digest = createHash('sha256')
    .update(zone + dnskey, 'latin1')
    .digest('binary')
  const tag = keyTag(dnskey)
  return { key, tag, dnskey, ds: octets(tag, 2) + octets(ALGORITHM, 1) + octets(DIGEST, 1) + digest }
}

/**
 * What the operator gives to the parent zone, in zone-file style; `zone` as text (`example.org.`).
 * Throws Error for what is no zone name or no key.
 */
export function dnskeyOf(zone: string, stored: string): { dnskey: string; ds: string; tag: number } {
  const { tag, dnskey, ds } = openCsk(nameOf(zone), stored)
  const head = `${zone} ${KEY_TTL} IN`
  const key = Buffer.from(dnskey.slice(4), 'latin1').toString('base64')
  const digest = Buffer.from(ds.slice(4), 'latin1').toString('hex').toUpperCase()
  return {
    dnskey: `${head} DNSKEY ${FLAGS} ${PROTOCOL} ${ALGORITHM} ${key}`,
    ds: `${head} DS ${tag} ${ALGORITHM} ${DIGEST} ${digest}`,
    tag,
  }
}

/** RFC 4034 appendix B */
function keyTag(rdata: string): number {
  let sum = 0
  for (let n = 0; n < rdata.length; n++) sum += n & 1 ? rdata.charCodeAt(n) : rdata.charCodeAt(n) << 8
  return (sum + (sum >> 16)) & 0xffff
}
