/**
 * Random changes of everything that the members of a cluster share, through any of them, some outrun, some of unknown
 * outcome, taken over by the others whenever: all end with the same rows, and with what follows from them.
 */
import t from 'tap'
import { desiredOn } from '../core/areas.ts'
import { free } from '../plugins/ipam/tables.ts'
import { type Mate, openMates } from './mates.ts'
import { fc } from './property.ts'

const P = '/api/v1'
const AREAS = ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants', 'firewall', 'vxlan', 'gateway', 'float']
const LINKS = [{ index: 2, name: 'up0', mtu: 1500, up: true, running: true, group: 0 }]
const ADDRESS = { version: 4, index: 2, scope: 0, permanent: true, unusable: false, protocol: 0 } as const
const config = { uplink: 'up0', api_rate_limit: '10000000', api_rate_burst: '1000000' }

const { mates, held, collections, revision } = await openMates(t, ['n1', 'n2', 'n3'], { only: AREAS, config })
for (const [at, { plane }] of mates.entries()) {
  const addresses = async () => [{ ...ADDRESS, cidr: `192.0.2.${at + 1}/24` }]
  Object.assign(plane, { devices: { ...plane.devices, links: async () => LINKS, addresses } })
}

const small = fc.nat(3)
const step = fc.record({
  at: fc.nat(2),
  what: fc.constantFrom(
    ...[
      'tenant',
      'rename',
      'untenant',
      'quota',
      'key',
      'unkey',
      'pool',
      'pool',
      'unpool',
      'allocate',
      'allocate',
      'allocate',
    ],
    ...[
      'release',
      'network',
      'unnetwork',
      'overlay',
      'unoverlay',
      'peer',
      'peer',
      'unpeer',
      'float',
      'float',
      'unfloat',
    ],
  ),
  a: small,
  b: small,
  fate: fc.constantFrom(undefined, undefined, undefined, 'outrun', 'lost', 'unavailable') as fc.Arbitrary<
    Mate['next'][number] | undefined
  >,
  /** Who takes over how many changes afterwards. */
  pump: fc.option(fc.record({ who: fc.nat(2), many: fc.nat(2) }), { nil: undefined, freq: 2 }),
})
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

const mateAt = (at: number): Mate => mates[at % mates.length] ?? mates[0]

/** The n-th thing of a list, as this member knows it. */
async function nth(mate: Mate, path: string, list: string, n: number): Promise<Record<string, unknown>> {
  const all = (await mate.call('GET', `${P}${path}`)).body[list] as Record<string, unknown>[]
  return all[n % Math.max(1, all.length)] ?? { id: 'none', ip: '192.0.2.9', host: 'none' }
}
const tenant = (mate: Mate, n: number) => nth(mate, '/tenant', 'tenants', n)

async function request(mate: Mate, { what, a, b }: Step): Promise<[method: string, path: string, body?: unknown]> {
  const maybeTenant = a % 2 === 0 ? { tenant_id: (await tenant(mate, b)).id } : {}
  switch (what) {
    case 'tenant':
      return ['POST', '/tenant', { name: `t${a}` }]
    case 'rename':
      return ['PUT', `/tenant/${(await tenant(mate, a)).id}`, { name: `t${b}` }]
    case 'untenant':
      return ['DELETE', `/tenant/${(await tenant(mate, a)).id}`]
    case 'quota':
      return ['PUT', `/tenant/${(await tenant(mate, a)).id}/quota`, { ip_pools: b, keys: 2, ip_allocations: 3 }]
    case 'key':
      return ['POST', `/tenant/${(await tenant(mate, a)).id}/keys`, { label: 'k' }]
    case 'unkey': {
      const { id } = await tenant(mate, a)
      return [
        'DELETE',
        `/tenant/${id}/keys/${(await nth(mate, `/tenant/${id}/keys`, 'keys', b).catch(() => ({ id: 0 }))).id}`,
      ]
    }
    case 'pool':
      return [
        'POST',
        '/ipam/pools',
        { name: `p${a}`, subnet: ['10.0.0.0/29', '10.0.0.0/30', '10.0.0.4/30', 'fd00::/64'][a], ...maybeTenant },
      ]
    case 'unpool':
      return ['DELETE', `/ipam/pools/${(await nth(mate, '/ipam/pools', 'pools', a)).id}`]
    case 'allocate':
      return ['POST', '/ipam/allocate', { pool_id: Number((await nth(mate, '/ipam/pools', 'pools', a)).id) || 1 }]
    case 'release': {
      const { pool_id, ip } = await nth(mate, '/ipam/allocations', 'allocations', a + 4 * b)
      return ['POST', '/ipam/release', { pool_id: Number(pool_id) || 1, ip }]
    }
    case 'network':
      return ['POST', '/networks', { name: `n${a}`, cidr: `10.${b}.0.0/29`, ...maybeTenant }]
    case 'unnetwork':
      return ['DELETE', `/networks/${(await nth(mate, '/networks', 'networks', a)).id}`]
    case 'overlay':
      return ['POST', '/vxlan/networks', { vni: (a % 2) + 1 }]
    case 'unoverlay':
      return ['DELETE', `/vxlan/networks/${(a % 2) + 1}`]
    case 'peer':
      return [
        'POST',
        `/vxlan/networks/${(a % 2) + 1}/peers`,
        { host: `h${b}`, vtep_ip: `192.0.2.${b + 1}`, mac: b > 1 ? '02:00:00:00:00:01' : '' },
      ]
    case 'unpeer': {
      const peers = mate.rows('vxlan_peers')
      const { vni, host } = peers[(a + 4 * b) % Math.max(1, peers.length)] ?? { vni: 9, host: 'none' }
      return ['DELETE', `/vxlan/networks/${vni}/peers/${host}`]
    }
    case 'float':
      return ['POST', '/float', { ip: `198.51.100.${a}`, primary: ['', 'n1', 'n2', 'n3'][b] }]
    default:
      return ['DELETE', `/float/${(await nth(mate, '/float', 'floating_ips', a)).id}`]
  }
}

function equal(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
  if (left !== right) throw new Error(`${what}: ${left} is not ${right}`)
}

const seen = new Map<string, number>()

async function ask(it: Step): Promise<{ it: Step; status: number; text: string }> {
  const mate = mateAt(it.at)
  const [method, path, body] = await request(mate, it)
  mate.next = it.fate ? [it.fate] : []
  const { status, text } = await mate.call(method, `${P}${path}`, body)
  return { it, status, text }
}

/** Several at once, and what of it anybody takes over then. */
async function carryOut(together: Step[]): Promise<void> {
  const before = revision()
  for (const { it, status, text } of await Promise.all(together.map(ask))) {
    const how = status < 300 ? 'done' : status === 503 ? 'unavailable' : 'refused'
    seen.set(`${it.what} ${how}`, (seen.get(`${it.what} ${how}`) ?? 0) + 1)
    const fits = status === 503 ? together.some(({ fate }) => fate) : [200, 201, 400, 404, 409].includes(status)
    if (!fits) throw new Error(`${it.what}: ${status} ${text}`)
    const taken = together.length === 1 && revision() > before
    if (taken && how !== 'done' && it.fate !== 'lost') throw new Error(`${it.what}: ${status}, and the cluster took it`)
  }
  for (const mate of mates) mate.next = []
  for (const { pump } of together) if (pump) await mateAt(pump.who).pump(pump.many)
}

/** What is left of each pool, made anew from pools and allocations. */
function freeAddresses(mate: Mate): string[] {
  const next = (hex: string) => (BigInt(`0x${hex}`) + 1n).toString(16).padStart(hex.length, '0')
  const all = (table: string) => mate.agent.store.read.all<Record<string, string>>(`select * from ${table}`)
  return all('ipam_pools')
    .flatMap(({ id, range_start = '', range_end = '', gateway = '' }) => {
      const used = new Set([
        gateway,
        ...all('ipam_allocations')
          .filter((row) => row.pool_id === id)
          .map(({ ip }) => ip),
      ])
      const left: string[] = []
      let first = range_start
      for (const taken of [...used].filter((ip) => ip !== undefined && ip >= range_start && ip <= range_end).sort()) {
        if (taken !== undefined && first < taken)
          left.push(`${id} ${first} ${(BigInt(`0x${taken}`) - 1n).toString(16).padStart(taken.length, '0')}`)
        first = next(taken ?? '')
      }
      return first.length === range_end.length && first <= range_end ? [...left, `${id} ${first} ${range_end}`] : left
    })
    .sort()
}

function check(): void {
  for (const name of collections.keys())
    for (const mate of mates) equal(mate.rows(name), held(name), `${name} on ${mate.name}`)
  const pools = held('ipam_pools')
  for (const [at, pool] of pools.entries()) {
    const meeting = pools
      .slice(at + 1)
      .find(
        (other) =>
          other.tenant_id === pool.tenant_id &&
          other.family === pool.family &&
          String(other.first) <= String(pool.last) &&
          String(pool.first) <= String(other.last),
      )
    if (meeting) throw new Error(`pools ${pool.id} and ${meeting.id} overlap`)
  }
  for (const mate of mates) {
    const { agent, plane, name } = mate
    const left = agent.store.read
      .select()
      .from(free)
      .all()
      .map(({ pool, first, last }) => `${pool} ${first} ${last}`)
    equal(left.sort(), freeAddresses(mate), `what is free on ${name}`)
    const areas = [...plane.entries.keys()].filter((key) => /^(vxlan|float)\//.test(key)).sort()
    const rendered = ['vxlan', 'float'].flatMap((area) => {
      const desired = desiredOn(plane, agentArea(mate, area))
      return [...(desired?.all(agent.store.read, agent.config) ?? [])].map(({ key }) => key)
    })
    equal(areas, rendered.filter((key) => /^(vxlan|float)\//.test(key)).sort(), `the plane of ${name}`)
    const orphans = agent.store.read.all<{ n: number }>(
      `select count(*) n from networks_networks where tenant_id <> '' and tenant_id not in (select id from tenants_tenants)`,
    )
    equal(orphans, [{ n: 0 }], `networks of tenants that are gone, on ${name}`)
  }
}
const agentArea = (_mate: Mate, name: string) => loaded.get(name) ?? {}
const loaded = new Map(
  await Promise.all(
    ['vxlan', 'float'].map(async (name) => [name, (await import(`../plugins/${name}/index.js`)).default.area] as const),
  ),
)

async function settle(): Promise<void> {
  for (const mate of mates) await mate.pump()
}

async function clear(): Promise<void> {
  await settle()
  for (const mate of mates) {
    mate.next = []
    const ids = async (path: string, list: string, key = 'id') =>
      ((await mate.call('GET', `${P}${path}`)).body[list] as Record<string, unknown>[]).map((it) => it[key])
    for (const id of await ids('/networks', 'networks')) await mate.call('DELETE', `${P}/networks/${id}`)
    for (const id of await ids('/tenant', 'tenants')) await mate.call('DELETE', `${P}/tenant/${id}`)
    for (const id of await ids('/ipam/pools', 'pools')) await mate.call('DELETE', `${P}/ipam/pools/${id}`)
    for (const id of await ids('/float', 'floating_ips')) await mate.call('DELETE', `${P}/float/${id}`)
    for (const { vni, host } of mate.rows('vxlan_peers'))
      await mate.call('DELETE', `${P}/vxlan/networks/${vni}/peers/${host}`)
    for (const vni of await ids('/vxlan/networks', 'vxlan_networks', 'vni'))
      await mate.call('DELETE', `${P}/vxlan/networks/${vni}`)
    await settle()
  }
}

t.test('whatever happens through whichever member, all hold the same and what follows from it', async (t) => {
  const runs = Number(process.env.REPLICATION_RUNS ?? 8)
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 1, maxLength: 3 }), { minLength: 20, maxLength: 60, size: 'max' }),
      async (steps) => {
        for (const together of steps) await carryOut(together)
        await settle()
        check()
        await clear()
        check()
        for (const { name, yields } of collections.values()) if (!yields) equal(held(name), [], `${name} at the end`)
      },
    ),
    { numRuns: runs },
  )
  const done = [...seen.keys()].filter((how) => how.endsWith('done'))
  t.ok(
    mates.every(({ outrun }) => outrun > 2),
    `control: outrun ${mates.map(({ outrun }) => outrun).join(', ')} times`,
  )
  t.ok(
    done.length >= 17,
    `control: ${[...seen]
      .map(([how, many]) => `${how} ${many}`)
      .sort()
      .join(', ')}`,
  )
})
