/** REST of BGP. */
import { randomInt } from 'node:crypto'
import { Readable } from 'node:stream'
import { Type } from 'typebox'
import type { TypedApp } from '../../core/area.ts'
import { ApiError } from '../../core/errors.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { announce, withdraw } from './announcements.ts'
import { routeList, whileTaken } from './listing.ts'
import { createNeighbor, deleteNeighbor, toNeighbor } from './neighbors.ts'
import {
  clearPolicy,
  deletePrefixList,
  deleteRouteMap,
  policies,
  putPrefixList,
  putRouteMap,
  setPolicy,
  toPrefixList,
  toRouteMap,
} from './policy.ts'
import { queries } from './queries.ts'
import * as schema from './schemas.ts'
import type { ListRow, MapRow, NeighborRow } from './tables.ts'
import { readAddress } from './values.ts'

const AREA = 'bgp'
/** A listing keeps others waiting, so a reader that takes nothing for so long loses it. */
const TAKEN_MS = 60_000
/** Longest wait for bgpd and zebra to go through their routes; 60,000 take them 2 to 3 s. */
const CONVERGED_MS = 2000
const Dir = Type.Object({ dir: schema.Direction })

export function routes(app: TypedApp): void {
  const { config, plane, store } = app.agent
  neighborRoutes(app)
  listRoutes(app)
  policyRoutes(app)
  app.get(
    '/bgp/status',
    {
      config: { after: 'start', volatile: true },
      schema: { summary: 'How BGP goes', response: { 200: schema.Status } },
    },
    async () => {
      const neighbors = queries(store.read).neighborCount.get()?.many ?? 0
      const live = await told(plane.bgp.neighbors())
      const running = plane.bgp.pids().bgpd !== undefined
      const own = queries(store.read).announcementCount.get()?.many ?? 0
      const speakers = neighbors > 0 ? await told(plane.bgp.prefixes()) : [own]
      return {
        status: neighbors > 0 && running ? ('running' as const) : ('idle' as const),
        neighbors,
        // Each speaker has all of our own.
        routes: speakers.reduce((sum, many) => sum + many, 0) - own * Math.max(0, speakers.length - 1),
        bfd_sessions_up: live.filter(({ bfd }) => bfd === 'up').length,
      }
    },
  )
  app.get(
    '/bgp/routes',
    {
      config: { after: 'start', volatile: true },
      schema: {
        summary: 'Routes that are announced and that neighbors have told, of one family',
        querystring: schema.RouteQuery,
        response: { 200: schema.RouteList },
      },
    },
    (request, reply) => {
      const { family = 'ipv4', peer = '', best } = request.query
      const wanted = {
        family: family === 'ipv4' ? (4 as const) : (6 as const),
        peer: peer === '' ? '' : readAddress(peer, 'peer').text,
        best: best === undefined ? undefined : best === 'true',
      }
      const abandon = () => pieces.destroy(new Error(`nobody took the routes for ${TAKEN_MS / 1000} s`))
      const pieces: Readable = Readable.from(whileTaken(routeList(store.read, plane.bgp, wanted), TAKEN_MS, abandon), {
        objectMode: false,
        highWaterMark: 65_536,
      })
      // A handler that returns the reply has answered; Fastify's types know only handlers that return the payload.
      reply.type('application/json; charset=utf-8').send(pieces as never)
      return reply as never
    },
  )
  app.post(
    '/bgp/announce',
    {
      schema: {
        summary: 'Tell all neighbors of a prefix, or tell them otherwise',
        body: schema.AnnounceInput,
        response: { 200: schema.Announced },
      },
    },
    (request, reply) =>
      carryOut(request, reply, AREA, (tx) =>
        announce(tx, request.body, { max: config.int('max_bgp_announcements'), now: app.agent.now() }),
      ),
  )
  app.post(
    '/bgp/withdraw',
    {
      schema: {
        summary: 'Tell neighbors of a prefix no more',
        body: schema.WithdrawInput,
        response: { 200: schema.Announced },
      },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => withdraw(tx, request.body.prefix)),
  )
}

/**
 * The answer to a change of what is done with routes: it waits until the routes that are known follow the change, and says
 * `pending` where that takes longer.
 */
async function carriedOut<T extends object>(app: TypedApp, change: Promise<T>): Promise<T & { pending?: true }> {
  const answer = await change
  return (await app.agent.plane.bgp.converged(CONVERGED_MS)) ? answer : { ...answer, pending: true }
}

/** A speaker that runs and does not answer makes nothing known; that is not to be taken for nothing there. */
const told = <T>(answer: Promise<T>): Promise<T> =>
  answer.catch((error: Error) => {
    throw new ApiError(503, 'NOT_AVAILABLE', error.message, {}, error)
  })

function neighborRoutes(app: TypedApp): void {
  const { config, plane, store } = app.agent
  app.get(
    '/bgp/neighbors',
    {
      config: { after: 'start', volatile: true },
      schema: { summary: 'All neighbors', response: { 200: schema.NeighborList } },
    },
    async (_request, reply) => {
      const live = new Map((await told(plane.bgp.neighbors())).map((it) => [it.address, it]))
      return sendList<NeighborRow>(reply, store, {
        key: 'neighbors',
        page: (db, last) => queries(db).neighborPage.all({ after: last?.id ?? 0 }),
        view: (row) => toNeighbor(row, queries(store.read).session.get({ id: row.id }), live.get(row.addr)),
      })
    },
  )
  app.post(
    '/bgp/neighbors',
    {
      schema: {
        summary: 'Speak BGP with a neighbor',
        body: schema.NeighborInput,
        response: { 201: schema.NeighborCreated },
      },
    },
    async (request, reply) => {
      const options = {
        max: config.int('max_bgp_neighbors'),
        now: app.agent.now(),
        routerId: anyRouterId(),
        md5: plane.bgp.md5,
      }
      const created = await carryOut(request, reply, AREA, (tx) => createNeighbor(tx, request.body, options))
      return reply.code(201).send(created)
    },
  )
  app.delete(
    '/bgp/neighbors/:addr',
    { schema: { summary: 'Speak with a neighbor no more', response: { 200: schema.NeighborDeleted } } },
    (request, reply) =>
      carriedOut(
        app,
        carryOut(request, reply, AREA, (tx) => deleteNeighbor(tx, param(request, 'addr'))),
      ),
  )
}

function listRoutes(app: TypedApp): void {
  const { store } = app.agent
  app.get(
    '/bgp/prefix-lists',
    { schema: { summary: 'All prefix-lists', response: { 200: schema.PrefixLists } } },
    (_request, reply) =>
      sendList<ListRow>(reply, store, {
        key: 'prefix_lists',
        page: (db, last) => queries(db).listPage.all({ after: last?.id ?? 0 }),
        view: toPrefixList,
      }),
  )
  app.post(
    '/bgp/prefix-lists',
    {
      schema: {
        summary: 'Make a prefix-list, or replace it',
        body: schema.PrefixListInput,
        response: { 200: schema.PrefixListPut },
      },
    },
    (request, reply) =>
      carriedOut(
        app,
        carryOut(request, reply, AREA, (tx) => putPrefixList(tx, request.body)),
      ),
  )
  app.delete(
    '/bgp/prefix-lists/:name',
    { schema: { summary: 'Delete a prefix-list that no route-map names', response: { 200: schema.PrefixListPut } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deletePrefixList(tx, param(request, 'name'))),
  )
  app.get(
    '/bgp/route-maps',
    { schema: { summary: 'All route-maps', response: { 200: schema.RouteMaps } } },
    (_request, reply) =>
      sendList<MapRow>(reply, store, {
        key: 'route_maps',
        page: (db, last) => queries(db).mapPage.all({ after: last?.id ?? 0 }),
        view: toRouteMap,
      }),
  )
  app.post(
    '/bgp/route-maps',
    {
      schema: {
        summary: 'Make a route-map, or replace it',
        body: schema.RouteMapInput,
        response: { 200: schema.RouteMapPut },
      },
    },
    (request, reply) =>
      carriedOut(
        app,
        carryOut(request, reply, AREA, (tx) => putRouteMap(tx, request.body)),
      ),
  )
  app.delete(
    '/bgp/route-maps/:name',
    { schema: { summary: 'Delete a route-map that is no policy', response: { 200: schema.RouteMapPut } } },
    (request, reply) => carryOut(request, reply, AREA, (tx) => deleteRouteMap(tx, param(request, 'name'))),
  )
}

function policyRoutes(app: TypedApp): void {
  const { store } = app.agent
  app.get(
    '/bgp/policy',
    { schema: { summary: 'The route-map of each neighbor and direction', response: { 200: schema.Policy } } },
    (request, reply) => sendOne(request, reply, policies(store.read)),
  )
  app.post(
    '/bgp/policy/:dir',
    {
      schema: {
        summary: 'Judge what a neighbor tells, or what it is told, by a route-map',
        params: Dir,
        body: schema.PolicyInput,
        response: { 200: schema.PolicyPut },
      },
    },
    (request, reply) =>
      carriedOut(
        app,
        carryOut(request, reply, AREA, (tx) => setPolicy(tx, request.params.dir, request.body), policies),
      ),
  )
  app.delete(
    '/bgp/policy/:dir/:neighbor',
    {
      schema: {
        summary: 'Judge it no more',
        params: Type.Object({ ...Dir.properties, neighbor: Type.String() }),
        response: { 200: schema.PolicyGone },
      },
    },
    (request, reply) =>
      carriedOut(
        app,
        carryOut(request, reply, AREA, (tx) => clearPolicy(tx, request.params.dir, request.params.neighbor), policies),
      ),
  )
}

const param = ({ params }: { params: unknown }, name: string): string => (params as Record<string, string>)[name] ?? ''

/** A unicast address that no router is likely to be called by already (RFC 6286 asks no more of it than to be unique). */
const anyRouterId = (): string => ['10', ...Array.from({ length: 3 }, () => String(randomInt(1, 255)))].join('.')
