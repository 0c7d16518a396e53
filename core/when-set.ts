/** What can be looked up of a setting when an operator sets it, so that it does not fail at the next start. */
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type ConfigKey, splitList } from './config.ts'

type WhenSet = NonNullable<ConfigKey['whenSet']>

/** 0 is a port that the kernel chooses. */
const PORTS = ['api_port', 'grpc_port', 'events_port']

/** The three services listen on the same address: no port twice. */
export const freePort =
  (own: string): WhenSet =>
  (value, stored) => {
    const other = PORTS.find((key) => key !== own && Number(value) !== 0 && Number(stored(key)) === Number(value))
    return other === undefined ? {} : { refused: `${value} is the port of ${other}; choose another` }
  }

const READERS = {
  tls_cert: { what: 'PEM certificate', read: (pem: Buffer) => new X509Certificate(pem) },
  tls_key: { what: 'unencrypted PEM private key', read: (pem: Buffer) => createPrivateKey(pem) },
}

/** `other` is the other half of the pair, as stored: one is set before the other, so that may still be missing or not fit. */
export function certificateWhenSet(own: 'tls_cert' | 'tls_key', path: string, other: string): ReturnType<WhenSet> {
  const partner = own === 'tls_cert' ? 'tls_key' : 'tls_cert'
  const alone = `${path === '' ? partner : own} is set without ${path === '' ? own : partner}: until both are set, or none, the network services do not start`
  if (path === '') return other === '' ? {} : { remark: alone }
  const refused = unreadable(path, READERS[own])
  if (refused !== undefined) return { refused }
  if (other === '') return { remark: alone }
  return belong(own, path, other)
    ? {}
    : { remark: `it does not belong to ${partner} (${other}): set that as well before stratumd is restarted` }
}

function belong(own: 'tls_cert' | 'tls_key', path: string, other: string): boolean {
  const [cert, key] = own === 'tls_cert' ? [path, other] : [other, path]
  try {
    return new X509Certificate(readFileSync(cert)).checkPrivateKey(createPrivateKey(readFileSync(key)))
  } catch {
    return false
  }
}

export const readableKeys: WhenSet = (text) => {
  const reader = { what: 'PEM public key', read: (pem: Buffer) => createPublicKey(pem) }
  const refused = splitList(text).flatMap((path) => unreadable(path, reader) ?? [])
  return refused.length === 0 ? {} : { refused: refused.join('; ') }
}

function unreadable(path: string, { what, read }: { what: string; read(pem: Buffer): unknown }): string | undefined {
  let pem: Buffer
  try {
    pem = readFileSync(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? `${path} does not exist` : `${path} cannot be read: ${message}`
  }
  try {
    read(pem)
    return undefined
  } catch {
    return `${path} holds no ${what}`
  }
}
