/** IPv4 addresses as numbers. */

export const addressText = (address: number): string =>
  `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`

/** A CIDR in canonical form; undefined for anything else. */
export function networkOf(cidr: string): { first: number; last: number; mask: number } | undefined {
  const [, address = '', length = ''] = /^((?:[0-9]{1,3}\.){3}[0-9]{1,3})\/([0-9]{1,2})$/.exec(cidr) ?? []
  const first = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  const size = 2 ** (32 - Number(length))
  if (size < 1 || first % size !== 0 || `${addressText(first)}/${Number(length)}` !== cidr) return undefined
  return { first, last: first + size - 1, mask: 2 ** 32 - size }
}
