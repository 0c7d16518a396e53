/** REST of tenants, their quotas and keys; that of the portal stands beside it. */
import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Db, TypedApp } from '../../core/area.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { certainCaller, mintKey, revokeKey, toKey } from './keys.ts'
import { portalRoutes } from './portal-routes.ts'
import { queries } from './queries.ts'
import { setQuota, showQuota } from './quotas.ts'
import { createTenant, deleteTenant, findTenant, toTenant, updateTenant } from './rules.ts'
import * as schema from './schemas.ts'
import type { KeyRow, TenantRow } from './tables.ts'

const AREA = 'tenants'
/** What a deletion takes out of the kernel is what networks have there. */
const HELD_BY = 'networks'
/** For a tenant's key in its own tenant as well. */
const access = 'tenant'

/** The router has found both in the path; `kid` only where the route has it. */
const paramsOf = ({ params }: { params: unknown }) => params as { id: string; kid: string }
/** What a GET answers, and what If-Match is held against. */
const oneTenant = (id: string) => (db: Db) => ({ tenant: toTenant(findTenant(db, id)) })
const oneQuota = (id: string) => (db: Db) => ({ quota: showQuota(db, id) })
const randomId = () => randomBytes(6).toString('hex')

export function routes(app: TypedApp): void {
  const { config, now, store } = app.agent
  app.get('/tenant', { schema: { summary: 'All tenants', response: { 200: schema.TenantList } } }, (_request, reply) =>
    sendList<TenantRow>(reply, store, {
      key: 'tenants',
      page: (db, last) => queries(db).tenantPage.all({ after: last?.name ?? '' }),
      view: toTenant,
    }),
  )
  app.post(
    '/tenant',
    { schema: { summary: 'Add a tenant', body: schema.TenantInput, response: { 201: schema.TenantCreated } } },
    async (request, reply) => {
      const creation = { id: `ten-${randomId()}`, now: now().toISOString(), max: config.int('max_tenants') }
      const created = await carryOut(request, reply, AREA, (tx) => createTenant(tx, request.body, creation))
      return reply.code(201).send(created)
    },
  )
  app.get(
    '/tenant/:id',
    { config: { access }, schema: { summary: 'One tenant', response: { 200: schema.OneTenant } } },
    (request, reply) => sendOne(request, reply, oneTenant(paramsOf(request).id)(store.read)),
  )
  app.put(
    '/tenant/:id',
    {
      schema: {
        summary: 'Rename, suspend, resume or delete a tenant',
        body: schema.TenantChange,
        response: { 200: schema.TenantUpdated },
      },
    },
    (request, reply) => {
      const { id } = paramsOf(request)
      const { status, ...rest } = request.body
      if (status === 'deleted') return carryOut(request, reply, HELD_BY, (tx) => deleteTenant(tx, id), oneTenant(id))
      const change = { ...rest, ...(status && { status }) }
      const at = now().toISOString()
      return carryOut(request, reply, AREA, (tx) => updateTenant(tx, id, change, at), oneTenant(id))
    },
  )
  app.delete(
    '/tenant/:id',
    {
      schema: {
        summary: 'Delete a tenant with its keys, quota, networks, public addresses and pools',
        response: { 200: schema.TenantDeleted },
      },
    },
    (request, reply) => {
      const { id } = paramsOf(request)
      return carryOut(request, reply, HELD_BY, (tx) => deleteTenant(tx, id), oneTenant(id))
    },
  )
  quotaRoutes(app)
  keyRoutes(app)
  portalRoutes(app)
}

function quotaRoutes(app: TypedApp): void {
  const { now, store } = app.agent
  app.get(
    '/tenant/:id/quota',
    { config: { access }, schema: { summary: 'What a tenant may have and has', response: { 200: schema.OneQuota } } },
    (request, reply) => sendOne(request, reply, oneQuota(paramsOf(request).id)(store.read)),
  )
  app.put(
    '/tenant/:id/quota',
    {
      config: { strict: true },
      schema: {
        summary: 'Set limits; those that are left out stay',
        body: schema.QuotaInput,
        response: { 200: schema.QuotaUpdated },
      },
    },
    (request, reply) => {
      const { id } = paramsOf(request)
      const at = now().toISOString()
      return carryOut(request, reply, AREA, (tx) => setQuota(tx, id, request.body, at), oneQuota(id))
    },
  )
}

function keyRoutes(app: TypedApp): void {
  const { config, now, store } = app.agent
  app.get(
    '/tenant/:id/keys',
    { config: { access }, schema: { summary: 'The keys of a tenant', response: { 200: schema.KeyList } } },
    (request, reply) => {
      const tenant = findTenant(store.read, paramsOf(request).id).id
      return sendList<KeyRow>(reply, store, {
        key: 'keys',
        page: (db, last) => queries(db).keyPage.all({ tenant, createdAt: last?.createdAt ?? '', id: last?.id ?? '' }),
        view: toKey,
      })
    },
  )
  app.post(
    '/tenant/:id/keys',
    {
      config: { access },
      schema: {
        summary: 'Mint a key, which is shown this once',
        body: schema.KeyInput,
        response: { 201: schema.KeyCreated },
      },
    },
    async (request, reply) => {
      const { id } = paramsOf(request)
      const minting = {
        id: `key-${randomId()}`,
        secret: randomBytes(32).toString('base64url'),
        ...{ now: now(), by: callerOf(request), max: config.int('max_tenant_keys') },
      }
      const created = await carryOut(request, reply, AREA, (tx) => {
        certainCaller(tx, request.caller, now())
        return mintKey(tx, id, request.body, minting)
      })
      return reply.code(201).header('cache-control', 'no-store').send(created)
    },
  )
  app.delete(
    '/tenant/:id/keys/:kid',
    { config: { access }, schema: { summary: 'Revoke a key', response: { 200: schema.KeyRevoked } } },
    (request, reply) => {
      const { id, kid } = paramsOf(request)
      return carryOut(request, reply, AREA, (tx) => {
        certainCaller(tx, request.caller, now())
        return revokeKey(tx, id, kid)
      })
    },
  )
}

function callerOf({ caller }: FastifyRequest): string {
  return caller === undefined ? 'unknown' : `${caller.kind} ${caller.label}`
}
