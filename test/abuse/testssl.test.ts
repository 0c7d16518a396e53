/**
 * testssl.sh against the three ports of a real agent: nothing worse than LOW, but for what follows from a certificate that
 * nobody but the node has signed. All checks on all ports with TLS_CHECKS=all (`npm run test:tls`), which takes minutes;
 * otherwise one port and one group of checks, picked by SEED.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startAgent } from '../agent.ts'
import { scratch } from '../build.ts'
import { type Netns, netns, requireRoot } from '../netns.ts'
import { requireProgram } from '../required.ts'
import { SEED } from '../seed.ts'

const ALL = process.env.TLS_CHECKS === 'all'
const PORTS = ALL ? [7070, 7071, 7072] : [7070 + (SEED % 3)]
/** Protocols; ciphers; what the server picks and presents. */
const GROUPS = ['--protocols', '--standard', '--server-defaults']
const CHECKS = ALL ? [] : [GROUPS[Math.floor(SEED / 3) % GROUPS.length] ?? '']

/** Findings that are accepted, by their id in testssl.sh. All other ids must be LOW or better. */
const ACCEPTED: Readonly<Record<string, string>> = {
  cert_chain_of_trust: 'self-signed until the operator configures a certificate: clients pin the key (D30)',
  cert_validityPeriod: 'ten years, so that a pinned certificate need not be replaced (D30)',
  cert_revocation: 'without an issuer there is nobody who could revoke: the operator replaces the certificate',
}
/** What this tool calls a weakness, worst last; WARN and DEBUG tell of the tool itself. */
const SEVERE = ['MEDIUM', 'HIGH', 'CRITICAL', 'FATAL']

interface Finding {
  id: string
  severity: string
  finding: string
}

/** Runs the checks inside `ns`; nothing is looked up, and nobody else is called. */
async function findings(ns: Netns, port: number, file: string): Promise<Finding[]> {
  const quiet = ['--quiet', '--warnings', 'off', '--color', '0', '--nodns', 'none']
  const child = ns.spawn('testssl', [...quiet, ...CHECKS, '--jsonfile', file, `127.0.0.1:${port}`], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  await once(child, 'exit')
  return JSON.parse(readFileSync(file, 'utf8')) as Finding[]
}

t.test('tls-04 D30 testssl.sh finds nothing worse than LOW on the three ports', { timeout: 600_000 }, async (t) => {
  if (!requireRoot(t)) return
  if (!requireProgram(t, 'testssl')) return
  t.comment(`SEED=${SEED}`)
  const ns = netns(t, 'ssl')
  const dir = scratch(t)
  await startAgent(t, { ns, config: { api_rate_limit: '10000000', api_rate_burst: '1000000' } })
  await Promise.all(
    PORTS.map(async (port) => {
      const found = await findings(ns, port, join(dir, `${port}.json`))
      const severe = found.filter(({ severity }) => SEVERE.includes(severity))
      const told = severe.filter(({ id }) => ACCEPTED[id] === undefined)
      t.same(told, [], `${port} ${CHECKS.join()}`)
      t.ok(
        found.some(({ severity }) => severity === 'OK'),
        `${found.length} findings on ${port}`,
      )
    }),
  )
})
