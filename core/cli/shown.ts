/** Any answer of the agent as lines for people, where no verb knows better: lists as tables, the rest as names and values. */
import { type Cell, columns, harmless } from './verb.ts'

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isTable = (value: unknown): value is Fields[] => Array.isArray(value) && value.every(isFields)

/** Pure. Text is made harmless for a terminal. */
export function shown(answer: unknown): string {
  if (typeof answer === 'string') return answer.split('\n').map(harmless).join('\n').trimEnd()
  if (isTable(answer)) return table('entries', answer)
  if (!isFields(answer)) return text(answer)
  const entries = Object.entries(answer)
  const lists = entries.filter((entry): entry is [string, Fields[]] => isTable(entry[1]))
  // One thing in an envelope is shown without it.
  const things = entries.filter((entry): entry is [string, Fields] => isFields(entry[1]))
  const scalars = entries.filter(([, value]) => !isTable(value) && !isFields(value))
  const parts = [
    ...(scalars.length > 0 ? [columns(scalars.map(([name, value]) => [label(name), text(value)]))] : []),
    ...things.map(([name, fields]) => (entries.length === 1 ? fieldLines(fields) : titled(name, fieldLines(fields)))),
    ...lists.map(([name, rows]) => table(name, rows)),
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

const label = (name: string) => name.replaceAll('_', ' ')
const titled = (name: string, lines: string) => (lines === '' ? '' : `${label(name).toUpperCase()}\n${lines}`)

function fieldLines(fields: Fields): string {
  const plain = Object.entries(fields).filter(([, value]) => !isTable(value) || value.length === 0)
  const lists = Object.entries(fields).filter((entry): entry is [string, Fields[]] => isTable(entry[1]))
  const head = columns(plain.map(([name, value]) => [label(name), text(value)]))
  return [head, ...lists.filter(([, rows]) => rows.length > 0).map(([name, rows]) => table(name, rows))].join('\n\n')
}

function table(name: string, rows: readonly Fields[]): string {
  if (rows.length === 0) return `no ${label(name)}`
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const cells = rows.map((row) => keys.map((key): Cell => (row[key] === undefined ? undefined : text(row[key]))))
  return columns([keys.map((key) => label(key).toUpperCase()), ...cells])
}

function text(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value)) return value.map(text).join(' ')
  if (isFields(value)) return JSON.stringify(value)
  return String(value)
}
