/** Who writes what the members share, at every member at once: things are made and deleted, many under names that others want. */
import type { Row } from '../../core/replication.ts'
import { parseAddress, textOf } from '../../plugins/ipam/address.ts'
import type { Answer } from '../build.ts'
import { chance } from '../chance.ts'
import type { ClusterNode } from '../cluster.ts'
import type { Model, Thing } from './model.ts'

const P = '/api/v1'
export const VNI = 100
const PAUSE_MS = 15
/** After a refusal for want of a majority, and when nobody answers. */
const LONG_PAUSE_MS = 100
/** Names and addresses that everybody wants. */
const FEW = 12

export interface Sample {
  node: string
  /** performance.now() of the call and of its answer. */
  from: number
  to: number
  /** 0: no answer. */
  status: number
}

export interface Writers {
  readonly samples: Sample[]
  /** Ends them, after what they are at. */
  stop(): Promise<void>
}

type Request = [method: string, path: string, body?: unknown]

/** Changes something. Its status; 0 when nobody answers. */
type Change = (node: ClusterNode, model: Model, random: () => number, n: number) => Promise<number>

/** One of those is at each node, its choices by `seed`. */
export function startWriters(nodes: readonly ClusterNode[], model: Model, seed: number, change: Change = one): Writers {
  const stopped = new AbortController()
  const samples: Sample[] = []
  const done = nodes.map((node, at) =>
    write({ node, model, random: chance(seed * 31 + at), change }, samples, stopped.signal),
  )
  return {
    samples,
    async stop() {
      stopped.abort()
      await Promise.all(done)
    },
  }
}

interface Writer {
  node: ClusterNode
  model: Model
  random: () => number
  change: Change
}

async function write({ node, model, random, change }: Writer, samples: Sample[], stopped: AbortSignal) {
  for (let n = 0; !stopped.aborted; n++) {
    const from = performance.now()
    const status = await change(node, model, random, n)
    samples.push({ node: node.id, from, to: performance.now(), status })
    await new Promise((resolve) => setTimeout(resolve, status === 0 || status >= 500 ? LONG_PAUSE_MS : PAUSE_MS))
  }
}

/** One change of anything. */
export async function one(node: ClusterNode, model: Model, random: () => number, n: number): Promise<number> {
  const kind = random()
  const few = Math.floor(random() * FEW)
  const by = `${node.id}-${n}-${Math.floor(random() * 1e9).toString(36)}`
  const some = (collection: string) => model.pick(collection, random)
  if (kind < 0.12) {
    const name = random() < 0.4 ? by : `t${few}`
    return make(node, model, ['POST', '/tenant', { name }], ({ tenant }) => {
      const { id } = tenant as { id: string }
      return { collection: 'tenants_tenants', row: { id, name }, made: by }
    })
  }
  if (kind < 0.16) return remove(node, model, some('tenants_tenants'), ({ id }) => ['DELETE', `/tenant/${id}`])
  if (kind < 0.18) {
    const status = random() < 0.5 ? 'suspended' : 'active'
    return update(node, model, some('tenants_tenants'), { status }, ({ id }) => ['PUT', `/tenant/${id}`, { status }])
  }
  if (kind < 0.2) return limit(node, model, some('tenants_tenants'), 1_000_000 + Math.floor(random() * 1_000_000), by)
  if (kind < 0.24) {
    const parent = some('tenants_tenants')
    if (parent === undefined) return 404
    return make(node, model, ['POST', `/tenant/${parent.row.id}/keys`, { label: by }], ({ key }) => {
      const { id } = key as { id: string }
      return { collection: 'tenants_keys', row: { id, tenant: parent.row.id ?? null, label: by }, parent, made: by }
    })
  }
  if (kind < 0.28) {
    return remove(node, model, some('tenants_keys'), ({ id, tenant }) => ['DELETE', `/tenant/${tenant}/keys/${id}`])
  }
  if (kind < 0.34) {
    const subnet = `10.${100 + few}.${Math.floor(random() * 4)}.0/${random() < 0.5 ? 24 : 28}`
    const owner = random() < 0.3 ? some('tenants_tenants') : undefined
    const body = { name: by, subnet, ...(owner && { tenant_id: owner.row.id }) }
    return make(node, model, ['POST', '/ipam/pools', body], ({ pool }) => {
      const { id } = pool as { id: number }
      return { collection: 'ipam_pools', row: { id, name: by, subnet }, ...(owner && { parent: owner }), made: by }
    })
  }
  if (kind < 0.36) return remove(node, model, some('ipam_pools'), ({ id }) => ['DELETE', `/ipam/pools/${id}`])
  if (kind < 0.66) {
    const parent = some('ipam_pools')
    if (parent === undefined) return 404
    const pool = parent.row.id ?? null
    return make(node, model, ['POST', '/ipam/allocate', { pool_id: pool, hostname: by }], ({ ip }) => {
      return { collection: 'ipam_allocations', row: { pool_id: pool, ip: stored(ip), hostname: by }, parent, made: by }
    })
  }
  if (kind < 0.78) {
    return remove(node, model, some('ipam_allocations'), ({ pool_id, ip }) => [
      'POST',
      '/ipam/release',
      { pool_id, ip: textOf(String(ip)) },
    ])
  }
  if (kind < 0.82) return makePeer(node, model, random, by)
  if (kind < 0.9) return dropPeer(node, model, random)
  if (kind < 0.96) {
    const ip = `203.0.113.${few + 1}`
    return make(node, model, ['POST', '/float', { ip }], ({ floating_ip }) => {
      const { id } = floating_ip as { id: string }
      return { collection: 'float_addresses', row: { id, ip, primary: node.id }, made: by }
    })
  }
  return remove(node, model, some('float_addresses'), ({ id }) => ['DELETE', `/float/${id}`])
}

function makePeer(node: ClusterNode, model: Model, random: () => number, by: string, hosts = FEW): Promise<number> {
  const few = Math.floor(random() * hosts)
  // Hardly the same twice.
  const vtep = `198.51.${Math.floor(random() * 200)}.${Math.floor(random() * 250) + 1}`
  const row = { vni: VNI, host: `h${few}`, vtep }
  const body = { host: row.host, vtep_ip: vtep, mac: `02:00:00:00:01:${(few + 16).toString(16)}` }
  return make(node, model, ['POST', `/vxlan/networks/${VNI}/peers`, body], () => ({
    collection: 'vxlan_peers',
    row,
    made: by,
  }))
}

function dropPeer(node: ClusterNode, model: Model, random: () => number): Promise<number> {
  return remove(node, model, model.pick('vxlan_peers', random), ({ host }) => [
    'DELETE',
    `/vxlan/networks/${VNI}/peers/${host}`,
  ])
}

/** Peers of very few hosts, deleted as often as made: what one makes, others may have made and deleted a moment before. */
export const onePeer: Change = (node, model, random, n) =>
  random() < 0.5 ? makePeer(node, model, random, `${node.id}-${n}`, FEW / 4) : dropPeer(node, model, random)

/** As it stands in the store. */
const stored = (ip: unknown): string => parseAddress(String(ip))?.hex ?? ''

async function make(
  node: ClusterNode,
  model: Model,
  request: Request,
  thing: (body: Answer['body']) => Omit<Thing, 'fate' | 'busy' | 'history'>,
): Promise<number> {
  const answer = await call(node, request)
  if (answer === undefined) model.counts.unknown++
  else if (answer.status < 300) {
    model.counts.acknowledged++
    model.made(thing(answer.body))
  } else if (answer.status < 500) model.counts.refused++
  else model.counts.unknown++
  return answer?.status ?? 0
}

async function remove(
  node: ClusterNode,
  model: Model,
  thing: Thing | undefined,
  request: (row: Thing['row']) => Request,
): Promise<number> {
  if (thing === undefined) return 404
  thing.busy = true
  const answer = await call(node, request(thing.row))
  thing.busy = false
  const status = answer?.status ?? 0
  thing.history.push(`deleted at ${node.id}: ${status}`)
  if (status === 404) {
    // This member may not have it yet, and then nothing is changed.
    model.counts.refused++
  } else if (status >= 200 && status < 300) {
    model.counts.acknowledged++
    thing.fate = 'gone'
  } else if (status >= 400 && status < 500) model.counts.refused++
  else {
    model.counts.unknown++
    thing.fate = 'unknown'
  }
  return status
}

/** A tenant's quota, so high that it refuses nothing. Nobody else changes that tenant meanwhile, or sets a quota of it. */
async function limit(node: ClusterNode, model: Model, tenant: Thing | undefined, most: number, by: string) {
  if (tenant === undefined) return 404
  const { id = null } = tenant.row
  const request: Request = ['PUT', `/tenant/${id}/quota`, { ip_allocations: most }]
  const known = model.things.find(({ collection, row, past }) => {
    return collection === 'tenants_quotas' && row.tenant === id && !past
  })
  tenant.busy = true
  try {
    if (known) return await update(node, model, known, { most }, () => request)
    return await make(node, model, request, () => {
      const row = { tenant: id, resource: 'ip_allocations', most }
      return { collection: 'tenants_quotas', row, parent: tenant, made: by }
    })
  } finally {
    tenant.busy = false
  }
}

/** Of some columns, which are those that change. */
async function update(
  node: ClusterNode,
  model: Model,
  thing: Thing | undefined,
  change: Row,
  request: (row: Row) => Request,
): Promise<number> {
  if (thing === undefined) return 404
  thing.busy = true
  const answer = await call(node, request(thing.row))
  thing.busy = false
  const rest = Object.fromEntries(Object.entries(thing.row).filter(([column]) => !(column in change)))
  if (answer === undefined || answer.status >= 500) {
    model.counts.unknown++
    thing.row = rest
  } else if (answer.status >= 400) model.counts.refused++
  else {
    model.counts.acknowledged++
    thing.row = { ...rest, ...change }
  }
  return answer?.status ?? 0
}

async function call({ agent }: ClusterNode, [method, path, body]: Request): Promise<Answer | undefined> {
  try {
    return await agent.call(method, `${P}${path}`, body)
  } catch {
    return undefined
  }
}
