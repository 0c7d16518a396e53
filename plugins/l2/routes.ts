/** REST of bridges and NICs. */
import type { TypedApp } from '../../core/area.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import type { Nic as Card } from '../../dataplane/nics.ts'
import { bondRoutes } from './bond-routes.ts'
import * as rules from './rules.ts'
import * as schema from './schemas.ts'

const AREA = 'l2'
/** Every path parameter is a string. */
const param = ({ params }: { params: unknown }, name: string): string =>
  (params as Record<string, string | undefined>)[name] ?? ''

export function routes(app: TypedApp): void {
  bondRoutes(app)
  const { store, plane, config } = app.agent
  /** Asked inside the pipeline, so that no other change of ours comes between the look and the change. */
  const live = async ({ force }: { force?: string }): Promise<rules.Live> => ({
    devices: await plane.devices.links(),
    uplink: config.text('uplink'),
    force: force === '1',
  })

  app.get(
    '/bridges',
    { config: { after: 'plane' }, schema: { summary: 'All bridges', response: { 200: schema.BridgeList } } },
    async () => {
      const devices = await plane.devices.links()
      return { bridges: rules.bridgeNames(store.read).map((name) => rules.withPorts(name, devices)) }
    },
  )
  app.post(
    '/bridges',
    { schema: { summary: 'Make a bridge', body: schema.BridgeInput, response: { 201: schema.BridgeCreated } } },
    async (request, reply) =>
      reply.code(201).send(await carryOut(request, reply, AREA, (tx) => rules.createBridge(tx, request.body.name))),
  )
  app.delete(
    '/bridges/:name',
    { schema: { summary: 'Remove a bridge', response: { 200: schema.BridgeDeleted } } },
    (request, reply) => {
      const name = param(request, 'name')
      return carryOut(request, reply, AREA, async (tx) => rules.deleteBridge(tx, name, await live({})))
    },
  )
  app.post(
    '/bridges/:name/ports',
    {
      schema: {
        summary: 'Put a device into a bridge',
        querystring: schema.Force,
        body: schema.PortInput,
        response: { 200: schema.PortAdded },
      },
    },
    (request, reply) => {
      const port = { bridge: param(request, 'name'), interface: request.body.interface }
      const { query } = request
      return carryOut(request, reply, AREA, async (tx) => rules.addPort(tx, port, await live(query)))
    },
  )
  app.delete(
    '/bridges/:name/ports/:iface',
    {
      schema: {
        summary: 'Take a device out of a bridge',
        querystring: schema.Force,
        response: { 200: schema.PortRemoved },
      },
    },
    (request, reply) => {
      const port = { bridge: param(request, 'name'), interface: param(request, 'iface') }
      const { query } = request
      return carryOut(request, reply, AREA, async (tx) => rules.removePort(tx, port, await live(query)))
    },
  )
  app.get(
    '/nics',
    // Every answer is a scan of its own, so `refresh` has nothing to add.
    {
      config: { after: 'plane' },
      schema: { summary: 'The network cards', querystring: schema.NicQuery, response: { 200: schema.NicList } },
    },
    async () => ({ nics: (await plane.devices.nics()).map(toNic) }),
  )
}

const toNic = ({ name, renamed, pci, driver, speedMbps, status }: Card): schema.Nic => ({
  original_name: renamed ? '' : name,
  stratum_name: name,
  pci,
  driver,
  speed_mbps: speedMbps,
  status,
})
