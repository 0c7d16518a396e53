/** What goes into a support bundle, from the agent, from the node and from a log; all of it scrubbed. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { SOURCES } from '../../health.ts'
import { FACILITIES } from '../../remedies.ts'
import { Refused, Unreachable } from '../client.ts'
import { type OpenApi, type Operation, operationsOf } from '../openapi.ts'
import { readDevices } from '../top/devices.ts'
import { UsageError, type VerbContext } from '../verb.ts'
import { kernelState } from './kernel.ts'
import { openScrubber, type Scrubber } from './scrub.ts'
import type { Packed } from './tar.ts'

/** Of a log that is longer, the end. */
const LOG_BYTES = 8 * 1024 * 1024
/** Events that are asked for. */
const EVENTS = 2000
/** Below /control, besides what REST lists. */
const CONTROL: readonly string[] = ['/control/v1/services', '/control/v1/license', '/control/v1/blocks']

export interface Sources {
  context: Pick<VerbContext, 'call' | 'lines' | 'note'>
  document: OpenApi | undefined
  version: string
  now: Date
  log?: string | undefined
  /** What `doctor` finds. */
  findings: unknown
}

interface Piece {
  name: string
  /** Scrubs anew whenever it is asked. */
  text(): string
}

export async function collect(sources: Sources): Promise<Packed[]> {
  const { context, document, version, now, log, findings } = sources
  const operations = document === undefined ? [] : operationsOf(document)
  const scrubber = openScrubber(wordsOf(document, operations))
  const pieces: Piece[] = []
  pieces.push(...(await fromAgent(context, operations, scrubber)))
  pieces.push({ name: 'doctor.json', text: () => json(scrubber.value(findings)) })
  if (log !== undefined) {
    const end = endOf(log)
    pieces.push({ name: 'log.ndjson', text: () => scrubbedLog(end, scrubber) })
  }
  for (const [name, text] of await kernelState()) pieces.push({ name, text: () => text })
  const versions = { stratumctl: version, node: process.version, arch: process.arch, made_at: now.toISOString() }
  pieces.push({ name: 'versions.json', text: () => json(versions) }, { name: 'README.txt', text: () => ABOUT })
  // The first time teaches the scrubber which texts there are; the second finds them in the sentences before them too.
  for (const { text } of pieces) text()
  return pieces.map(({ name, text }) => ({ name: `stratum-support/${name}`, content: Buffer.from(text()) }))
}

const json = (value: unknown) => `${JSON.stringify(value, null, 1)}\n`

/** Names of fields, values of enumerations, parts of paths, devices: no words of people. */
function wordsOf(document: OpenApi | undefined, operations: readonly Operation[]): Set<string> {
  const words = new Set(operations.flatMap(({ path, area }) => [area, ...path.split('/')]))
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [name, inner] of Object.entries(value)) {
      if (name === 'properties' && typeof inner === 'object' && inner !== null) {
        for (const field of Object.keys(inner)) words.add(field)
      }
      if (name === 'enum' && Array.isArray(inner)) for (const one of inner) words.add(String(one))
      if (name === 'const' && typeof inner === 'string') words.add(inner)
      walk(inner)
    }
  }
  walk(document?.paths)
  walk(document?.components)
  for (const device of readDevices().keys()) words.add(device)
  for (const word of [...OWN_WORDS, ...SOURCES]) words.add(word)
  return words
}
const OWN_WORDS = [
  'core',
  'cli',
  'system',
  'token',
  'operator',
  'tenant',
  'on',
  'off',
  'control',
  'v1',
  'ok',
  'warning',
]
  .concat([
    'failure',
    'note',
    'default',
    'detected',
    'file',
    'override',
    'environment',
    'rest',
    'grpc',
    'events',
    'agent',
  ])
  .concat([
    'debug',
    'info',
    'warn',
    'error',
    'fatal',
    'starting',
    'running',
    'degraded',
    'stopping',
    'missing',
    'changed',
    'foreign',
  ])
  .concat(FACILITIES, ['br-work', 'br-mgmt', 'lo'])

async function fromAgent(
  context: Sources['context'],
  operations: readonly Operation[],
  scrubber: Scrubber,
): Promise<Piece[]> {
  const { call, lines } = context
  const pieces: Piece[] = []
  const failed: string[] = []
  const attempt = async (name: string, make: () => Promise<() => string>): Promise<void> => {
    try {
      pieces.push({ name: `agent/${name}`, text: await make() })
    } catch (error) {
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error
      failed.push(`${name}: ${error.message}`)
      if (error instanceof Unreachable) throw error
    }
  }
  const readable = operations.filter(
    ({ method, path, personal }) =>
      method === 'GET' && !path.includes('{') && !personal && !/\/(docs|metrics)$/.test(path),
  )
  try {
    for (const { path } of readable) {
      const name = path.replace('/api/v1/', '').replaceAll('/', '-')
      await attempt(`rest/${name}.json`, async () => {
        const answer = await call('GET', path)
        // Text is what needs no scrubbing to be public, such as the public key of the certificate; it is not needed either.
        return () => (typeof answer === 'string' ? 'text is left out\n' : json(scrubber.value(answer)))
      })
    }
    for (const path of CONTROL) {
      const name = path.replace('/control/v1/', 'control/')
      await attempt(`${name}.json`, async () => {
        const answer = await call('GET', path)
        return () => json(scrubber.value(answer))
      })
    }
    await attempt('config.json', () => configuration(call, scrubber))
    await attempt('events.ndjson', () => events(lines, call, scrubber))
    await attempt('metrics.txt', async () => {
      const text = String(await call('GET', '/api/v1/metrics'))
      return () => text
    })
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error
    context.note('the agent does not answer: the bundle holds what can be seen without it')
  }
  if (failed.length > 0)
    pieces.push({ name: 'agent/missing.txt', text: () => `${failed.map(scrubber.sentence).join('\n')}\n` })
  return pieces
}

async function configuration(call: VerbContext['call'], scrubber: Scrubber): Promise<() => string> {
  const { config } = await call<{ config: { key: string; value: string; source: string }[] }>(
    'GET',
    '/control/v1/config',
  )
  // Where a value comes from tells as much as the value.
  const shown = () => config.map(({ key, value, source }) => [key, { value: scrubber.value(value, key), source }])
  return () => json(Object.fromEntries(shown()))
}

/** Those that are kept, the newest; the stream itself would not end. */
async function events(
  lines: VerbContext['lines'],
  call: VerbContext['call'],
  scrubber: Scrubber,
): Promise<() => string> {
  const text = String(await call('GET', '/api/v1/metrics'))
  const latest = Number(/^stratum_events_latest_id (\d+)$/m.exec(text)?.[1] ?? 0)
  const frames: unknown[] = []
  if (latest === 0) return () => ''
  for await (const line of lines(`/control/v1/events?since=${Math.max(0, latest - EVENTS)}`)) {
    const frame: { id?: number } = JSON.parse(line)
    frames.push(frame)
    if (frame.id !== undefined && frame.id >= latest) break
  }
  return () => `${frames.map((frame) => JSON.stringify(scrubber.value(frame))).join('\n')}\n`
}

/** @throws UsageError when it cannot be read */
function endOf(file: string): string {
  try {
    const descriptor = openSync(file, 'r')
    try {
      const { size } = fstatSync(descriptor)
      const length = Math.min(size, LOG_BYTES)
      const bytes = Buffer.alloc(length)
      const read = readSync(descriptor, bytes, 0, length, size - length)
      return bytes.subarray(0, read).toString('utf8')
    } finally {
      closeSync(descriptor)
    }
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}

/** Lines of the agent; of others only how many there were, because nobody knows what stands in them. */
function scrubbedLog(text: string, scrubber: Scrubber): string {
  let foreign = 0
  const lines = text.split('\n').flatMap((line) => {
    if (line.trim() === '') return []
    try {
      return JSON.stringify(scrubber.value(JSON.parse(line)))
    } catch {
      foreign++
      return []
    }
  })
  return `${[...lines, ...(foreign > 0 ? [JSON.stringify({ lines_left_out: foreign })] : [])].join('\n')}\n`
}

const ABOUT = `What stratumctl support-bundle has gathered.

agent/     answers of the agent: lists of REST, configuration, events, metrics, health
kernel/    tables, links, routes and programs, as the tools of the kernel list them
doctor.json, versions.json, and log.ndjson where a log was given

Tokens, keys, passwords, licences and their hashes are left out, and so are flows and accounting. Names, comments and other
words that people chose are text-1, text-2 ...: the same number is the same text. Addresses, MACs and names of devices are in it.
`
