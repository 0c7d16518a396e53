import { createHash } from 'node:crypto'

/** First 16 hex digits of SHA-256: tells whether what stands in the kernel is what the store means. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
