/**
 * Keeps the BFD sessions that bgpd has asked for in bfdd. The two speak by way of zebra, to which bgpd connects anew 10 s after a crash; a
 * bfdd that has come meanwhile is never told. To be told the same again is enough.
 */
import { readBfd, readNeighbors } from './answers.ts'
import { bfdLine } from './entries.ts'
import { readStatements, type Statement } from './statements.ts'
import type { Vty } from './vty.ts'

/** Settings of neighbors whose session bfdd does not have. */
export async function missingSessions(bgpd: Vty, bfdd: Vty): Promise<Statement[]> {
  const [[neighbors], [sessions]] = await Promise.all([
    bgpd.run(['show bgp vrf all neighbors json']),
    bfdd.run(['show bfd peers json']),
  ])
  const there = readBfd(sessions?.text ?? '')
  const missing = new Map(
    (await readNeighbors(neighbors?.text ?? '')).flatMap(({ address, bfd }) =>
      bfd && !there.has(address) ? [[address, bfd] as const] : [],
    ),
  )
  if (missing.size === 0) return []
  const [config] = await bgpd.run(['show running-config'])
  return Array.from(readStatements(config?.text ?? '')).flatMap(({ in: path, line }) => {
    const [, address = ''] = /^neighbor (\S+) bfd$/.exec(line) ?? []
    const bfd = missing.get(address)
    return bfd ? [{ in: path, line: `neighbor ${address} ${bfdLine(bfd.multiplier, bfd.rx, bfd.tx)}` }] : []
  })
}
