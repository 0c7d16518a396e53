/**
 * JSON bodies, strictly: RFC 8259, one value, no duplicate keys (RFC 7493 §2.3, D10). An empty body is an empty object,
 * so that a route whose fields are all optional needs none (D11).
 */
import { badRequest } from '../errors.ts'

/** Parses a request body. Throws a 400 that says what is wrong. */
export function parseBody(text: string): unknown {
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw badRequest(`malformed JSON: ${(error as Error).message}`)
  }
  const duplicate = duplicateKey(text)
  if (duplicate !== undefined) throw badRequest(`duplicate key: ${duplicate}`)
  return value
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPEN = 0x7b
const CLOSE = 0x7d

/** The first key that stands twice in one object of `text`, which must be valid JSON; without recursion. */
export function duplicateKey(text: string): string | undefined {
  const objects: Set<string>[] = []
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === OPEN) objects.push(new Set())
    else if (code === CLOSE) objects.pop()
    else if (code === QUOTE) {
      const end = closingQuote(text, at + 1)
      let next = end + 1
      while (/\s/.test(text[next] ?? '')) next++
      if (text.charCodeAt(next) === COLON) {
        const raw = text.slice(at, end + 1)
        const key: string = raw.includes('\\') ? JSON.parse(raw) : raw.slice(1, -1)
        const keys = objects.at(-1)
        if (keys?.has(key)) return key.slice(0, 64)
        keys?.add(key)
      }
      at = end
    }
  }
  return undefined
}

function closingQuote(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === BACKSLASH) at++
    else if (code === QUOTE) return at
  }
  return text.length
}
