/** What a JSON Schema asks for, in words for people. Pure. */

/** The parts of a schema that are told. `title` says in words what a pattern stands for. */
export interface Told {
  title?: string
  type?: string
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: readonly Told[]
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
}

const TYPES = new Map([
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['object', 'an object'],
  ['null', 'null'],
])
const EMPTY = 'empty'

/** Fits behind `must be`: `a whole number from 1 to 65535`, `tcp, udp or empty`. */
export function describe(schema: Told): string {
  const { title, type = '', anyOf } = schema
  if (title !== undefined) return title
  if (anyOf !== undefined) return either(anyOf.map(describe))
  if (schema.enum !== undefined) return either(schema.enum.map(literal))
  if (schema.const !== undefined) return literal(schema.const)
  if (type === 'integer' || type === 'number')
    return `${type === 'integer' ? 'a whole number' : 'a number'}${range(schema)}`
  return type === 'string' ? textOf(schema) : (TYPES.get(type) ?? 'something else')
}

/** What is wrong with the number of entries or fields; fits behind a name and a colon. */
export function tooFewOrMany(keyword: string, schema: Told): string | undefined {
  const entries = (number = 0) => (number === 1 ? 'one entry' : `${number} entries`)
  if (keyword === 'minItems') return `must have at least ${entries(schema.minItems)}`
  if (keyword === 'maxItems') return `must have at most ${entries(schema.maxItems)}`
  if (keyword === 'uniqueItems') return 'must not have an entry twice'
  return keyword === 'minProperties' ? 'must have at least one field' : undefined
}

const literal = (value: unknown): string => (value === '' ? EMPTY : String(value))

/** The empty one comes last, where it is not overlooked. */
function either(words: readonly string[]): string {
  const all = [...words.filter((word) => word !== EMPTY), ...words.filter((word) => word === EMPTY)]
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`
}

function range({ minimum, maximum, exclusiveMinimum }: Told): string {
  if (exclusiveMinimum !== undefined && maximum === undefined) return ` above ${exclusiveMinimum}`
  const most = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? undefined : maximum
  if (minimum !== undefined && most !== undefined) return ` from ${minimum} to ${most}`
  if (minimum !== undefined) return ` from ${minimum} on`
  return most === undefined ? '' : ` of at most ${most}`
}

function textOf({ minLength, maxLength }: Told): string {
  if (minLength !== undefined && maxLength !== undefined) return `text of ${minLength} to ${maxLength} characters`
  if (minLength !== undefined)
    return minLength === 1 ? 'text that is not empty' : `text of at least ${minLength} characters`
  return maxLength === undefined ? 'text' : `text of at most ${maxLength} characters`
}
