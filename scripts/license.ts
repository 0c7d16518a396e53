/** The vendor's tool: makes the key pair that licences are signed with, and signs licence files. Runs anywhere. */
import { createPrivateKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { IsDateTime } from 'typebox/format'
import { type LicencePayload, signLicence } from '../core/licence/file.ts'
import { CAPABILITIES } from '../core/licence/plan.ts'
import { rfc3339 } from '../core/licence/state.ts'

const USAGE = `Usage:
  npm run license -- keygen --out DIR
      writes DIR/vendor.pem (private: keep it off the nodes) and DIR/vendor.pub (name it in license_trusted_keys)
  npm run license -- sign --key vendor.pem [--out FILE] [options]
      --serial S        serial number                         (random)
      --plan NAME       name of the plan                      (standard)
      --channel NAME    release channel                       (stable)
      --from TIME       RFC 3339, or a date in UTC            (now; 365 days before an --until that has passed)
      --until TIME      RFC 3339, or a date in UTC
      --days N          instead of --until: whole days after --from  (365)
      --gbps N          bandwidth ceiling in Gbit/s, 0 = none (0)
      --features LIST   comma-separated, all or none          (all)
                        ${CAPABILITIES.join(' ')}
      --hardware-id X   bind to one machine
  Without --out the licence goes to standard output.
`
const DAY_MS = 86_400_000
const DEFAULT_DAYS = 365

/** The command line is wrong: exit 2. Anything else that fails exits 1. */
class UsageError extends Error {}

function main(args: readonly string[]): void {
  const [command, ...rest] = args
  if (command === 'keygen') keygen(rest)
  else if (command === 'sign') signFile(rest)
  else if (command === '--help' || command === 'help') process.stdout.write(USAGE)
  else throw new UsageError(command === undefined ? 'name a command: keygen or sign' : `unknown command ${command}`)
}

function keygen(args: string[]): void {
  const { out } = options(args, ['out'])
  if (out === undefined) throw new UsageError('keygen needs --out DIR')
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  mkdirSync(out, { recursive: true })
  // `wx`: an existing vendor key is never overwritten, for every licence signed with it would be lost.
  writeFileSync(join(out, 'vendor.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }), {
    mode: 0o600,
    flag: 'wx',
  })
  writeFileSync(join(out, 'vendor.pub'), publicKey.export({ type: 'spki', format: 'pem' }), { flag: 'wx' })
}

const SIGN_OPTIONS = [
  'key',
  'out',
  'serial',
  'plan',
  'channel',
  'from',
  'until',
  'days',
  'gbps',
  'features',
  'hardware-id',
] as const

function signFile(args: string[]): void {
  const given = options(args, SIGN_OPTIONS)
  if (given.key === undefined) throw new UsageError('sign needs --key FILE')
  const payload = payloadOf(given, new Date())
  const text = signLicence(payload, createPrivateKey(readFileSync(given.key, 'utf8')))
  if (given.out === undefined) process.stdout.write(text)
  else writeFileSync(given.out, text)
}

function payloadOf(given: Partial<Record<(typeof SIGN_OPTIONS)[number], string>>, now: Date): LicencePayload {
  const { from, until } = validity(given.from, given.until, given.days, now)
  const hardwareId = given['hardware-id']
  return {
    serial_number: given.serial ?? `LIC-${randomBytes(6).toString('hex')}`,
    plan: given.plan ?? 'standard',
    release_channel: given.channel ?? 'stable',
    valid_from: rfc3339(from),
    valid_until: rfc3339(until),
    max_bandwidth_gbps: wholeNumber('gbps', given.gbps ?? '0'),
    features: features(given.features ?? 'all'),
    ...(hardwareId === undefined ? {} : { hardware_id: hardwareId }),
  }
}

function validity(from: string | undefined, until: string | undefined, days: string | undefined, now: Date) {
  if (until !== undefined && days !== undefined) throw new UsageError('give --until or --days, not both')
  const end = until === undefined ? undefined : time('until', until)
  const start = from === undefined ? defaultStart(end, now) : time('from', from)
  const length = days === undefined ? DEFAULT_DAYS : wholeNumber('days', days)
  const range = { from: start, until: end ?? new Date(start.getTime() + length * DAY_MS) }
  if (!(range.until > range.from)) throw new UsageError('the licence must end after it begins')
  return range
}

/** Now in whole seconds; for an end that has passed, a year before it. */
function defaultStart(end: Date | undefined, now: Date): Date {
  if (end !== undefined && end <= now) return new Date(end.getTime() - DEFAULT_DAYS * DAY_MS)
  return new Date(Math.floor(now.getTime() / 1000) * 1000)
}

/** `2030-01-31` is midnight UTC. */
function time(option: string, text: string): Date {
  const full = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text
  const parsed = new Date(full)
  // The check comes first because Date would turn February 30th into March.
  if (!IsDateTime(full) || Number.isNaN(parsed.getTime())) {
    throw new UsageError(`--${option} must be like 2030-01-31T00:00:00Z or 2030-01-31`)
  }
  return parsed
}

function wholeNumber(option: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`--${option} must be a whole number`)
  return Number(text)
}

function features(list: string): Record<string, boolean> {
  const wanted = list === 'all' ? CAPABILITIES : list.split(',').filter((name) => name !== '' && name !== 'none')
  const unknown = wanted.find((name) => !(CAPABILITIES as readonly string[]).includes(name))
  if (unknown !== undefined) throw new UsageError(`unknown feature ${unknown}; known: ${CAPABILITIES.join(' ')}`)
  return Object.fromEntries(CAPABILITIES.map((name) => [name, (wanted as readonly string[]).includes(name)]))
}

/** The values of string options; anything else on the command line is a usage error. */
function options<const Name extends string>(args: string[], names: readonly Name[]): Partial<Record<Name, string>> {
  try {
    const config = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]))
    // Every option is a string and only those named are let through, which parseArgs cannot express for a computed set.
    return parseArgs({ args, options: config, strict: true }).values as Partial<Record<Name, string>>
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

try {
  main(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`license: ${error instanceof Error ? error.message : error}\n`)
  if (error instanceof UsageError) process.stderr.write(USAGE)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
