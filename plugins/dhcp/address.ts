/** IPv4 addresses as numbers, so that their order is that of the addresses. */
import { parsePrefix } from '../../dataplane/nft/text.ts'

/** Undefined for what is no IPv4 address. */
export function addressNumber(text: string): number | undefined {
  const prefix = text.includes('/') ? undefined : parsePrefix(text)
  return prefix?.family === 4 ? prefix.bytes.reduce((sum, byte) => sum * 256 + byte, 0) : undefined
}

export const addressText = (address: number): string =>
  `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`
