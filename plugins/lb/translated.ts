/** VIPs as nft's rules: where the kernel has no place for the programs. Pure. */
import { fallbackChains, fallbackRules } from '../../dataplane/bpf/lb/fallback.ts'
import { forwarding } from '../../dataplane/entry.ts'
import { WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { AREA, type Render, renders, vipEntry } from './rendering.ts'

/** nft's translation; and IPv4, so that what it turns is forwarded (IPv6 has one setting for the whole node). */
const byNft: Render = (db, row, config) => {
  const devices = row.address.includes(':') ? [] : new Set([config.text('uplink'), WORK_BRIDGE])
  const forwarded = [...devices].filter((device) => device !== '').map((device) => forwarding(AREA, device, row.id))
  return [...fallbackRules(vipEntry(db, row), row.number), ...forwarded]
}

export const translated = renders(fallbackChains, byNft)
