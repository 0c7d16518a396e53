/** Our DNS server as the process that `npm run bench -- dns` measures; told over IPC what to hold. */
import type { DnsListener } from '../../dataplane/responder/entries.ts'
import { openDns } from '../../responder/dns/dns.ts'
import type { ZonePassage } from '../../responder/dns/zones.ts'

const MANY = { rate: 1e9, burst: 1e9 }
/** What is measured comes from one address, so its share is no bound here; the buckets are asked all the same. */
const limits = { signatures: MANY, prefixSignatures: MANY, largeAnswers: MANY, octets: MANY }
const dns = openDns({ limits, onError: (error) => process.stderr.write(`${String(error)}\n`) })

process.on('message', async ({ listen, apply = [] }: { listen?: DnsListener; apply?: ZonePassage[] }) => {
  dns.apply(apply)
  if (listen) await dns.applyListeners([{ after: listen }])
  process.send?.('done')
})
