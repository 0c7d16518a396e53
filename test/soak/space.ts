/** Whether pools of addresses hold as much as they shall: what a pool gives next must be the lowest that nobody has. */
import type { Call } from '../agent.ts'
import { Broken } from './broken.ts'
import { P } from './kind.ts'

interface Pool {
  id: number
  name: string
  gateway: string
  range_start: string
  range_end: string
}

interface Allocation {
  pool_id: number
  ip: string
}

const SAMPLE = 5

/** Takes an address of each of some pools and gives it back. Returns whatever is wrong, in words. */
export async function spaceDifferences(call: Call): Promise<string[]> {
  const get = async (path: string) => {
    const { status, body, text } = await call('GET', `${P}${path}`)
    if (status !== 200) throw new Broken(`GET ${path}: ${status} ${text}`)
    return body
  }
  const pools = (await get('/ipam/pools')).pools as Pool[]
  const allocations = (await get('/ipam/allocations')).allocations as Allocation[]
  const out: string[] = []
  for (const pool of pools.slice(-SAMPLE)) {
    const taken = new Set(allocations.filter(({ pool_id }) => pool_id === pool.id).map(({ ip }) => ip))
    const lowest = lowestFree(pool, taken)
    const { status, body, text } = await call('POST', `${P}/ipam/allocate`, { pool_id: pool.id, hostname: 'probe' })
    if (status >= 300) {
      // Not the operator's to take from, or its tenant has had enough.
      if (lowest !== undefined && status === 409 && text.includes('no free address'))
        out.push(`pool ${pool.name} is full, but ${lowest} is free`)
      continue
    }
    const { ip } = body as { ip: string }
    if (ip !== lowest) out.push(`pool ${pool.name} gives ${ip}, but ${lowest} is the lowest that nobody has`)
    const released = await call('POST', `${P}/ipam/release`, { pool_id: pool.id, ip })
    if (released.status >= 300) out.push(`${ip} of pool ${pool.name} cannot be released: ${released.text}`)
  }
  return out
}

function lowestFree({ gateway, range_start, range_end }: Pool, taken: ReadonlySet<string>): string | undefined {
  for (let at = numberOf(range_start); at <= numberOf(range_end); at++) {
    const ip = [24, 16, 8, 0].map((shift) => (at >>> shift) & 0xff).join('.')
    if (ip !== gateway && !taken.has(ip)) return ip
  }
  return undefined
}

const numberOf = (ip: string): number => ip.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
