/** After any sequence of changes: step by step = rendered at once = reference by reference, and each address has one user. */

import t from 'tap'
import type { Ref } from '../../../core/area.ts'
import type { Entry } from '../../../dataplane/entry.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { claimRef, desired, endpointRef, insideRef, netRef, routedRef } from '../desired.ts'
import type { Endpoint, Network } from '../schemas.ts'
import { claims, endpoints, networks as networksTable, ranges } from '../tables.ts'
import { ALWAYS, networks, P } from './area.ts'

const area = await networks(t, { config: { uplink: 'away0' } })

type Step = { kind: (typeof KINDS)[number]; a: number; b: number; flag: boolean; refuse: boolean }
const KINDS = [
  ...(['create', 'create', 'delete', 'gateway', 'attach', 'attach', 'attach', 'detach', 'mac', 'mac'] as const),
  ...(['range', 'unrange', 'nic', 'nic', 'nic', 'leave', 'reserve'] as const),
]
const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom(...KINDS),
  ...{ a: fc.nat(999), b: fc.nat(999), flag: fc.boolean() },
  refuse: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
})

const CIDRS = ['10.0.0.0/29', '10.0.0.0/28', '10.0.0.8/29', '10.0.0.0/24', '10.0.0.16/30', '10.1.0.0/30', '9.9.9.0/29']
const RANGES = ['9.9.9.4/30', '8.8.4.0/30', '8.8.4.4', '8.8.4.0/29']
const MACS = ['02:00:00:00:00:01', '02:00:00:00:00:02', '02:ce:0a:00:00:02', '02:ce:0a:00:00:03']
const pick = <T>(list: readonly T[], at: number): T | undefined => list[at % Math.max(1, list.length)]

const statuses = new Map<string, Set<number>>()
const listed = async () => (await area.call('GET', `${P}/networks`)).body.networks as Network[]

async function carryOut({ kind, a, b, flag, refuse }: Step): Promise<void> {
  const all = await listed()
  const network = pick(all, a)
  const endpoint = network && pick(await area.endpoints(network), b)
  const of = network === undefined ? `${P}/networks/none` : `${P}/networks/${network.id}`
  const at = `${of}/endpoints/${endpoint?.id ?? 'none'}`
  if (refuse) area.plane.refuse = new KernelRefusal('made up')
  const ask = async (method: string, path: string, body?: unknown) => {
    const { status } = await area.call(method, path, body)
    note(kind, status)
  }
  const rest = { tenant_id: pick(['', 'a', 'b'], b), host_gateway: flag, snat: flag && a % 2 === 0 }
  const cidr = pick(CIDRS, a) ?? ''
  const gateway =
    flag || b % 2 === 0 ? { gateway: cidr.replace(/\d+\/\d+$/, (end) => `${Number.parseInt(end, 10) + 1}`) } : {}
  switch (kind) {
    case 'create':
      await ask('POST', `${P}/networks`, { name: `n${a}${b}`, cidr, ...gateway, ...rest })
      break
    case 'delete':
      await ask('DELETE', of)
      break
    case 'gateway':
      await (flag ? ask('PUT', `${of}/host-gateway`, { snat: b % 2 === 0 }) : ask('DELETE', `${of}/host-gateway`))
      break
    case 'attach':
      await ask('POST', `${of}/attach`, {
        ...(flag && endpoint && { ip: endpoint.ip }),
        ...(b % 3 === 0 && { mac: pick(MACS, a) }),
      })
      break
    case 'detach':
      await ask('POST', `${at}/detach`)
      break
    case 'mac':
      await ask('PUT', `${at}/mac`, { mac: flag ? endpoint?.mac : pick(MACS, a + b) })
      break
    case 'range':
      await ask('POST', `${P}/routed-addresses`, { cidr: pick(RANGES, a), tenant_id: pick(['', 'a'], b) })
      break
    case 'unrange':
      await ask('DELETE', `${P}/routed-addresses?cidr=${pick(RANGES, a)}`)
      break
    case 'reserve': {
      const { pools } = (await area.call('GET', `${P}/ipam/pools`)).body as { pools: { id: number }[] }
      await ask('POST', `${P}/ipam/allocate`, { pool_id: pick(pools, a)?.id ?? 0 })
      break
    }
    default:
      await machine(kind, network, endpoint, a, b, flag)
  }
  area.plane.refuse = undefined
}

async function machine(
  kind: 'nic' | 'leave',
  network: Network | undefined,
  endpoint: Endpoint | undefined,
  a: number,
  b: number,
  flag: boolean,
) {
  const name = `vm${a % 3}`
  const nic = {
    ...(flag && network && { network: network.id }),
    ...(flag && b % 2 === 0 && endpoint && { ip: endpoint.ip }),
    ...((!flag || b % 3 === 0) && { public_ip: b % 4 === 0 ? '8.8.4.1' : 'auto' }),
    ...(b % 5 === 0 && { port: `tap${b % 2}` }),
  }
  const work = kind === 'nic' ? area.attachNic(name, nic) : area.detachNics(name)
  const status = await work.then(
    () => 200,
    (error: { status?: number }) => error.status ?? 500,
  )
  note(kind, status)
}

function note(kind: string, status: number): void {
  if (status >= 500) throw new Error(`${kind}: ${status}`)
  statuses.set(kind, (statuses.get(kind) ?? new Set()).add(status))
}

const byKey = (entries: Iterable<Entry>) =>
  [...entries].map((entry) => JSON.stringify(entry, Object.keys(entry).sort())).sort()
const same = (a: readonly string[], b: readonly string[], what: string) => {
  if (a.join('\n') !== b.join('\n')) throw new Error(`${what}:\n${a.join('\n')}\nis not\n${b.join('\n')}`)
}

function agrees(): void {
  const { read } = area.agent.store
  const rendered = byKey(desired.all(read, area.agent.config))
  const planned = [...area.plane.entries.values()].filter(({ key }) => key.startsWith('networks/'))
  same(byKey(planned), rendered, 'the plane')
  const [nets, ends, blocks, taken] = [networksTable, endpoints, ranges, claims].map((table) =>
    read.select().from(table).all(),
  ) as [{ net: number; first: number; last: number }[], { net: number; address: number }[], never[], { ip: number }[]]
  const refs: Ref[] = [
    ...[...nets.map(({ net }) => netRef(net)), ...[...nets, ...blocks].map(insideRef)],
    ...[...ends.map(endpointRef), ...taken.map(({ ip }) => claimRef(ip)), routedRef],
  ]
  const ids = [...new Set(refs.map(({ id }) => id))]
  const ones = ids.flatMap((id) => desired.one(read, id, area.agent.config))
  const fixed = /networks_(guests|input|postrouting|uplinks)"/
  same(
    byKey(ones),
    rendered.filter((text) => !fixed.test(text)),
    'one by one',
  )
}

/** Of every network: distinct MACs; IPAM holds what is bound and what was reserved, no more and no less. */
async function sound(): Promise<void> {
  const { body } = await area.call('GET', `${P}/ipam/allocations`)
  const held = new Set((body.allocations as { hostname: string }[]).map(({ hostname }) => hostname))
  let bound = 0
  for (const network of await listed()) {
    const list = await area.endpoints(network)
    if (new Set(list.map(({ mac }) => mac)).size !== list.length) throw new Error(`${network.name}: a MAC held twice`)
    for (const { id, state } of list) {
      if (state === 'bound') bound++
      if (held.has(id) !== (state === 'bound')) throw new Error(`${id} is ${state}, IPAM says otherwise`)
    }
  }
  held.delete('')
  if (held.size !== bound) throw new Error(`${held.size} allocations for ${bound} bound endpoints`)
  const { ranges, addresses } = await area.routed()
  for (const { id, used, free, size } of ranges) {
    const found = addresses.filter(({ range_id, used_by }) => range_id === id && used_by !== '').length
    if (found !== used || used + free !== size) throw new Error(`${id} counts ${used}, ${found} are used`)
  }
  if (addresses.some(({ used_by, mac }) => (used_by === '') !== (mac === ''))) throw new Error('a user without a MAC')
}

async function cleared(): Promise<void> {
  for (const name of ['vm0', 'vm1', 'vm2']) await area.detachNics(name)
  for (const network of await listed()) {
    for (const endpoint of await area.endpoints(network)) if (endpoint.state === 'bound') await area.detach(endpoint)
    await area.call('DELETE', `${P}/networks/${network.id}`)
  }
  for (const { id } of (await area.routed()).ranges) await area.call('DELETE', `${P}/routed-addresses/${id}`)
}

t.test('any sequence of changes, some refused by the kernel: everything agrees', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }), async (steps) => {
      await cleared()
      for (const one of steps) await carryOut(one)
      agrees()
      await sound()
    }),
    { numRuns: 30 },
  )
  for (const kind of new Set<string>(KINDS)) {
    const met = statuses.get(kind) ?? new Set()
    t.ok(
      [200, 201].some((status) => met.has(status)),
      `control: ${kind} succeeded at times`,
    )
  }
})

t.test('taking everything away leaves nothing', async (t) => {
  await cleared()
  agrees()
  t.same(area.planned(), [...ALWAYS, 'networks/networks_uplinks/"away0"'])
})
