/**
 * `npm run bench -- NAME [--json]`: runs a bench in a network namespace of its own, made and removed here.
 * As root only, because it measures the real kernel.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { api } from './api.ts'
import { bandwidth } from './bandwidth.ts'
import { bgp } from './bgp.ts'
import { cluster } from './cluster.ts'
import { crowd } from './crowd.ts'
import { dhcp } from './dhcp.ts'
import { dns } from './dns.ts'
import { drift } from './drift.ts'
import { events } from './events.ts'
import { type Report, reporter } from './figure.ts'
import { firewall } from './firewall.ts'
import { flows } from './flows.ts'
import { lb } from './lb.ts'
import { lbPeers } from './lb-peers.ts'
import { nat } from './nat.ts'
import { networks } from './networks.ts'
import { port } from './port.ts'
import { portEnd } from './port-end.ts'
import { start } from './start.ts'

const BENCHES: Readonly<Record<string, (report: Report) => Promise<void>>> = {
  api,
  bandwidth,
  bgp,
  cluster,
  crowd,
  dhcp,
  dns,
  drift,
  events,
  firewall,
  flows,
  lb,
  'lb-peers': lbPeers,
  nat,
  networks,
  port,
  'port-end': portEnd,
  start,
}

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const [name = ''] = positionals
const bench = BENCHES[name]
if (bench === undefined) {
  process.stderr.write(`usage: npm run bench -- NAME [--json]; NAME is one of ${Object.keys(BENCHES).join(', ')}\n`)
  process.exit(2)
}
if (process.env.STRATUM_BENCH_INSIDE) await bench(reporter(name, values.json))
else process.exit(inNamespace())

function inNamespace(): number {
  const namespace = `stb${process.pid}`
  const ip = (...args: string[]) => execFileSync('ip', args, { stdio: 'inherit' })
  ip('netns', 'add', namespace)
  try {
    ip('-n', namespace, 'link', 'set', 'lo', 'up')
    const args = [`--net=/run/netns/${namespace}`, process.execPath, ...process.argv.slice(1)]
    const env = { ...process.env, STRATUM_BENCH_INSIDE: '1' }
    return spawnSync('nsenter', args, { stdio: 'inherit', env }).status ?? 1
  } finally {
    ip('netns', 'del', namespace)
  }
}
