/**
 * A tenant with much in the kernel is deleted in one change, and others get their turn meanwhile. NETWORKS and ENDPOINTS
 * set how much (little by default; the goal for 1000 and 10,000 is 5 s, and no turn of the event loop above 20 ms).
 */
import '../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { system } from '../../../core/state/events.ts'
import { layoutDir } from '../../../dataplane/bpf/bpffs.ts'
import { type Codec, u32 } from '../../../dataplane/bpf/codec.ts'
import { openMap } from '../../../dataplane/bpf/map.ts'
import { addressKey, addressRow, endpointKey, endpointRow, netRow } from '../../../dataplane/bpf/port/layout.ts'
import { openKernel } from '../../../dataplane/kernel.ts'
import { watchStalls } from '../../../test/bench/stall.ts'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { attachNic } from '../../networks/offers.ts'
import { AREAS, type Tenants, tenantsArea } from './area.ts'

requireRoot(t)

const NETWORKS = Number(process.env.NETWORKS ?? 12)
const ENDPOINTS = Number(process.env.ENDPOINTS ?? 240)
/** Of every so many endpoints one has a public address as well. */
const WITH_PUBLIC = 20
const BATCH = 500

const run = (command: string, ...args: string[]) => execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1e9 })

/** What the kernel holds of private networks and public addresses. */
function dump(bpfDir: string): string {
  const rows = <K, V>(name: string, key: Codec<K>, value: Codec<V>) => {
    const map = openMap(join(layoutDir(bpfDir), name), key, value)
    const all = [...map.entries()].map((pair) => JSON.stringify(pair)).sort()
    map.close()
    return [name, ...all]
  }
  return [
    ...[rows('nets', u32, netRow), rows('by_mac', endpointKey, endpointRow), rows('addresses', addressKey, addressRow)],
    ...[['networks_inside', 'networks_snat'].map((set) => run('nft', 'list', 'set', 'inet', 'stratum', set))],
    ...[['address', 'route', 'neighbour'].map((kind) => run('ip', '-4', '-o', kind, 'show', 'dev', 'br-work'))],
  ]
    .flat()
    .join('\n')
}

async function furnish({ agent, ok, network, add }: Tenants) {
  const tenant = await add()
  for (let n = 0; n < NETWORKS; n++) {
    const block = `10.${n >> 8}.${n & 255}`
    const gateway = n % 10 === 0 && { gateway: `${block}.1`, snat: true }
    await network(tenant, { name: `net${n}`, cidr: `${block}.0/24`, ...gateway })
  }
  await ok('POST', '/routed-addresses', { cidr: '8.8.0.0/22', tenant_id: tenant.id })
  for (let at = 0; at < ENDPOINTS; at += BATCH) {
    await agent.pipeline.mutate('networks', system('test'), (tx) => {
      const touched = []
      for (let n = at; n < Math.min(at + BATCH, ENDPOINTS); n++) {
        const nic = { network: `net${n % NETWORKS}`, ...(n % WITH_PUBLIC === 0 && { public_ip: 'auto' }) }
        touched.push(...attachNic(tx, `vm${n}`, nic, '2030-01-01T00:00:00.000Z').touch)
      }
      return { result: undefined, touch: [...new Map(touched.map((ref) => [ref.id, ref])).values()], events: [] }
    })
  }
  return tenant
}

t.test('tenant-05 tenant-06 a tenant with much in the kernel goes in one change', { timeout: 115_000 }, async (t) => {
  t.comment(`NETWORKS=${NETWORKS} ENDPOINTS=${ENDPOINTS}`)
  const bpfDir = `/sys/fs/bpf/${here}`
  t.teardown(() => rmSync(bpfDir, { recursive: true, force: true }))
  const built = await tenantsArea(t, {
    // The chain of guests' services names a set of the firewall.
    only: [...AREAS, 'firewall'],
    openPlane: (options) => openKernel({ ...options, bpfDir, responderSocket: `${bpfDir}/none` }),
    config: { uplink: 'lo' },
    // Nothing beats by itself.
    clock: () => performance.now(),
  })
  const { agent, add, network, attach, ok, quota } = built
  const other = await add('other')
  const theirs = await network(other, { name: 'theirs', cidr: '10.0.0.0/24' })
  await attach('their vm', { network: theirs.id })
  const before = dump(bpfDir)
  const tenant = await furnish(built)
  t.match((await quota(tenant)).usage, { networks: NETWORKS, endpoints: ENDPOINTS, routed_addresses: 1024 })
  t.ok(dump(bpfDir).length > before.length + 20 * ENDPOINTS, 'control: the kernel holds them')

  const [cpu, since, stalls] = [process.cpuUsage(), performance.now(), watchStalls()]
  await ok('DELETE', `/tenant/${tenant.id}`)
  const wall = performance.now() - since
  const { user } = process.cpuUsage(cpu)
  const stall = await stalls()
  t.comment(`${wall.toFixed(0)} ms, ${(user / 1000).toFixed(0)} ms of CPU, longest turn ${stall.toFixed(1)} ms of CPU`)
  t.equal(dump(bpfDir), before, 'nothing of it is left in the kernel, and all of the other tenant')
  t.match(await agent.drift.check({ dryRun: true }), { result: 'clean' })
  t.match((await quota(other)).usage, { networks: 1, endpoints: 1 })
  t.ok(wall < 20_000, 'in reasonable time on a busy machine')
})
