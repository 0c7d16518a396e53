/** Which ranges of a world hold an address. */
import type { World } from './world.ts'

/** The longest range that holds the address. */
export function hostRange(world: World, address: string): World['hostRanges'][number] | undefined {
  const lengthOf = (range: { prefix: string }) => Number(range.prefix.split('/')[1])
  const holding = world.hostRanges.filter(({ prefix }) => inAny([prefix], address))
  return holding.sort((a, b) => lengthOf(b) - lengthOf(a))[0]
}

export function inAny(prefixes: readonly string[], address: string): boolean {
  return prefixes.some((prefix) => {
    const [base = '', length = ''] = prefix.split('/')
    const shift = 32n - BigInt(length)
    return number(base) >> shift === number(address) >> shift
  })
}

function number(address: string): bigint {
  return address.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n)
}
