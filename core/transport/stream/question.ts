/** What a reader of the stream asks for in its query: where to begin and which events it wants (D109). */
import { Type } from 'typebox'
import { badRequest } from '../../errors.ts'
import type { Event } from '../../state/events.ts'
import type { Start } from './cursor.ts'

/** Judges an event by its type and area. */
export type Filter = (event: Pick<Event, 'type' | 'area'>) => boolean

export interface Question {
  start: Start
  wants: Filter
}

const ID = /^(0|[1-9][0-9]{0,14})$/
const STREAM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const PATTERN = /^([a-z0-9_.]{1,64}\*?|\*)$/
const AREA = /^[a-z][a-z0-9-]{0,63}$/
const MAX_ITEMS = 100

/** The query as the documents show it. */
export const Query = Type.Object({
  since: Type.Optional(
    Type.String({
      title: 'the number of an event',
      pattern: ID.source,
      description: 'begin after this event; without it, after the latest',
    }),
  ),
  stream: Type.Optional(
    Type.String({ format: 'uuid', description: 'the stream that `since` belongs to, as its stream.hello gave it' }),
  ),
  types: Type.Optional(
    Type.String({ description: 'only events of these types, comma-separated; rule.* means all that begin so' }),
  ),
  areas: Type.Optional(Type.String({ description: 'only events of these areas, comma-separated' })),
})

/** Reads the parsed query string; keys it does not know are left alone. @throws ApiError 400 that says what is wrong */
export function readQuestion(query: Readonly<Record<string, unknown>>): Question {
  const since = text(query, 'since', ID, 'the id of an event, a whole number')
  const stream = text(query, 'stream', STREAM, 'the id of a stream as its stream.hello gives it')
  const types = list(query, 'types', PATTERN, 'event types such as rule.created, rule.* or *')
  const areas = list(query, 'areas', AREA, 'names of areas such as firewall')
  const wantsType = typeFilter(types)
  return {
    start: { since: since === undefined ? undefined : Number(since), stream: stream?.toLowerCase() },
    wants: ({ type, area }) => wantsType(type) && (areas.length === 0 || areas.includes(area)),
  }
}

/** A pattern is a whole type, or the beginning of types followed by `*`. No pattern at all wants everything. */
export function typeFilter(patterns: readonly string[]): (type: string) => boolean {
  const whole = new Set(patterns.filter((pattern) => !pattern.endsWith('*')))
  const beginnings = patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1))
  return (type) =>
    patterns.length === 0 || whole.has(type) || beginnings.some((beginning) => type.startsWith(beginning))
}

function text(query: Readonly<Record<string, unknown>>, key: string, shape: RegExp, what: string): string | undefined {
  const value = query[key]
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !shape.test(value)) throw badRequest(`${key}: must be ${what}, once`)
  return value
}

function list(query: Readonly<Record<string, unknown>>, key: string, shape: RegExp, what: string): readonly string[] {
  const value = query[key] ?? ''
  const items = typeof value === 'string' ? value.split(',').map((item) => item.trim()) : ['?']
  const named = items.filter((item) => item !== '')
  if (named.length > MAX_ITEMS) throw badRequest(`${key}: at most ${MAX_ITEMS}`)
  if (!named.every((item) => shape.test(item))) throw badRequest(`${key}: must be a comma-separated list of ${what}`)
  return named
}
