/** REST of bonds. */
import { randomBytes } from 'node:crypto'
import type { Db, TypedApp } from '../../core/area.ts'
import { ApiError } from '../../core/errors.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import * as rules from './bonds.ts'
import * as schema from './schemas.ts'
import type { BondRow } from './tables.ts'

const AREA = 'l2'
/** Every path parameter is a string. */
const param = ({ params }: { params: unknown }, name: string): string =>
  (params as Record<string, string | undefined>)[name] ?? ''

export function bondRoutes(app: TypedApp): void {
  const { store, plane, config } = app.agent
  /** Asked inside the pipeline, so that no other change of ours comes between the look and the change. */
  const live = async ({ force }: { force?: string } = {}): Promise<rules.BondLive> => ({
    devices: await plane.devices.links(),
    addresses: await plane.devices.addresses(),
    uplink: config.text('uplink'),
    force: force === '1',
  })
  const standing = (db: Db, { id, name }: BondRow) => plane.devices.bond(name, rules.membersOf(db, id))
  const shown = async (row: BondRow) =>
    rules.toBond(row, rules.membersOf(store.read, row.id), await standing(store.read, row))

  app.get(
    '/bonds',
    {
      config: { after: 'plane' },
      schema: { summary: 'All bonds, with how their members stand', response: { 200: schema.BondList } },
    },
    async () => ({ bonds: await Promise.all(rules.allBonds(store.read).map(shown)) }),
  )
  app.post(
    '/bonds',
    { schema: { summary: 'Make a bond', body: schema.BondInput, response: { 201: schema.BondCreated } } },
    async (request, reply) => {
      const id = `bond-${randomBytes(6).toString('hex')}`
      const max = config.int('max_bonds')
      const created = await carryOut(request, reply, AREA, (tx) => rules.createBond(tx, request.body, id, max))
      return reply.code(201).send(created)
    },
  )
  app.get(
    '/bonds/:id',
    // How the members stand is measured.
    {
      config: { after: 'plane', volatile: true },
      schema: { summary: 'One bond, with how its members stand', response: { 200: schema.BondShown } },
    },
    async (request) => ({ bond: await shown(rules.known(store.read, param(request, 'id'))) }),
  )
  app.delete(
    '/bonds/:id',
    { schema: { summary: 'Remove a bond and release its members', response: { 200: schema.BondDeleted } } },
    (request, reply) =>
      carryOut(request, reply, AREA, async (tx) => rules.deleteBond(tx, param(request, 'id'), await live())),
  )
  app.post(
    '/bonds/:id/members',
    {
      schema: {
        summary: 'Put a device into a bond',
        querystring: schema.Force,
        body: schema.PortInput,
        response: { 200: schema.MemberAdded },
      },
    },
    (request, reply) => {
      const member = { id: param(request, 'id'), interface: request.body.interface }
      const { query } = request
      return carryOut(request, reply, AREA, async (tx) => rules.addMember(tx, member, await live(query)))
    },
  )
  app.delete(
    '/bonds/:id/members/:iface',
    {
      schema: {
        summary: 'Take a device out of a bond',
        querystring: schema.Force,
        response: { 200: schema.MemberRemoved },
      },
    },
    (request, reply) => {
      const member = { id: param(request, 'id'), interface: param(request, 'iface') }
      const { query } = request
      return carryOut(request, reply, AREA, async (tx) => rules.removeMember(tx, member, await live(query)))
    },
  )
  app.put(
    '/bonds/:id/mtu',
    {
      schema: {
        summary: 'Set the MTU of a bond and of its members',
        body: schema.MtuInput,
        response: { 200: schema.MtuSet },
      },
    },
    (request, reply) => {
      const id = param(request, 'id')
      const { mtu } = request.body
      return asBadRequest(
        carryOut(request, reply, AREA, async (tx) =>
          rules.setMtu(tx, id, mtu, await standing(tx, rules.known(tx, id))),
        ),
      )
    },
  )
}

/** More than a member can do is no conflict but a value that is too large (D16). */
async function asBadRequest<T>(changed: Promise<T>): Promise<T> {
  try {
    return await changed
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'KERNEL_REFUSED') throw error
    throw new ApiError(400, error.code, error.message, {}, error)
  }
}
