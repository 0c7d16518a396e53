/** A server inside this process, for tests that run in a namespace of their own, and clients to ask it. */
import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import type { DnsRecord, DnsZone } from '../../../dataplane/responder/entries.ts'
import type { Scope } from '../../../test/netns.ts'
import { type Dns, type DnsOptions, openDns } from '../dns.ts'
import type { ZonePassage } from '../zones.ts'

const run = promisify(execFile)

export const PORT = 53
/** On loopback beside 127.0.0.1 and ::1: servers, and clients inside and outside of subnets. */
const ADDRESSES = ['10.0.0.53/32', '10.1.2.3/32', '10.1.9.9/32', '10.7.7.7/32', 'fd00::53/128', 'fd01::9/128']

export function addAddresses(): void {
  for (const address of ADDRESSES) {
    const noDad = address.includes(':') ? ['nodad'] : []
    execFileSync('ip', ['address', 'replace', address, 'dev', 'lo', ...noDad])
  }
}

export const soa = (zone: string, serial = 2024010101) =>
  `ns1.${zone === '.' ? '' : zone} hostmaster.${zone} ${serial} 3600 600 604800 300`

export function zone(name: string, csk?: string): ZonePassage & { after: DnsZone } {
  const signed = csk === undefined ? {} : { csk }
  return { after: { kind: 'dns_zone', key: `zone/${name}`, name, soa: soa(name), soaTtl: 3600, ...signed } }
}

/** `www A 192.0.2.1` in its zone; the key says all of it, so two alike are one. */
export function record(zone: string, text: string, subnet = '', ttl = 300): ZonePassage & { after: DnsRecord } {
  const [, owner = '', type = '', value = ''] = /^(\S+) (\S+) ?(.*)$/s.exec(text) ?? []
  const name = owner === '@' ? zone : `${owner}.${zone}`
  const key = `record/${name}/${type}/${value}/${subnet}`
  return { after: { kind: 'dns_record', key, zone, name, type: type as DnsRecord['type'], ttl, value, subnet } }
}

export function undone({ before, after }: ZonePassage): ZonePassage {
  return { ...(after && { before: after }), ...(before && { after: before }) }
}

/** Listens on each address, and ends with the test. */
export async function serve(t: Scope, addresses: readonly string[], options: DnsOptions = {}): Promise<Dns> {
  const dns = openDns({
    onError(error) {
      throw error
    },
    ...options,
  })
  t.teardown(() => dns.close())
  await dns.applyListeners(
    addresses.map((address) => ({ after: { kind: 'dns_listener', key: address, address, port: PORT } })),
  )
  return dns
}

/** stdout of a client, which may end with an error. */
export async function client(command: string, ...args: string[]): Promise<string> {
  try {
    const { stdout, stderr } = await run(command, args, { timeout: 60_000, maxBuffer: 16 << 20 })
    return stdout + stderr
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    return stdout + stderr
  }
}

export interface Dug {
  status: string
  flags: string[]
  answer: string[]
  authority: string[]
  additional: string[]
  text: string
}

/** `dig` at a server; lines of the sections with single spaces. */
export async function dig(server: string, ...args: string[]): Promise<Dug> {
  const text = await client('dig', `@${server}`, '-p', String(PORT), '+time=20', '+tries=1', '+nocookie', ...args)
  const section = (name: string) => {
    const [, lines = ''] = new RegExp(`;; ${name} SECTION:\\n((?:[^;\\n][^\\n]*\\n)*)`).exec(text) ?? []
    return lines.split('\n').flatMap((line) => (line === '' ? [] : [line.replace(/\s+/g, ' ')]))
  }
  return {
    status: /status: (\w+)/.exec(text)?.[1] ?? '',
    flags: (/;; flags: ([^;]*);/.exec(text)?.[1] ?? '').trim().split(' '),
    answer: section('ANSWER'),
    authority: section('AUTHORITY'),
    additional: section('ADDITIONAL'),
    text,
  }
}
