/** REST of the gateway. Below /gateway/snat is the area nat. */
import type { TypedApp } from '../../core/area.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { duration } from '../node/offers.ts'
import { bootId } from './boot.ts'
import { queries } from './queries.ts'
import { circumstances, holds } from './role.ts'
import { failback, failover, type Outlook } from './rules.ts'
import * as schema from './schemas.ts'
import { configuredVips, type Vip } from './vip.ts'

const AREA = 'gateway'

export function routes(app: TypedApp): void {
  const { agent } = app
  const { config, store, plane } = agent
  const now = () => circumstances(config, bootId())
  const active = () => holds(queries(store.read).role.get(), now())

  app.get(
    '/gateway/status',
    {
      config: { after: 'plane', volatile: true },
      schema: { summary: 'Who has the VIP', response: { 200: schema.GatewayStatus } },
    },
    (): schema.GatewayStatus => {
      const peer = config.text('gateway_peer')
      return {
        local_state: active() ? 'active' : 'standby',
        peer_state: 'solo',
        vip: config.list('gateway_vip').join(','),
        uptime: duration(agent.now().getTime() - agent.startedAt.getTime()),
        active_conns: plane.connections.count(),
        peer_addr: peer,
        heartbeat: peer === '' ? 'not needed' : 'not running',
      }
    },
  )
  app.post(
    '/gateway/failover',
    { schema: { summary: 'Yield the VIP to the peer', response: { 200: schema.FailedOver } } },
    async (request, reply) => {
      const taken = await takenOf(configuredVips(config).filter(({ cidr }) => waits(cidr)))
      return carryOut(request, reply, AREA, (tx) => failover(tx, now(), taken))
    },
  )
  app.post(
    '/gateway/failback',
    { schema: { summary: 'Take the VIP back', response: { 200: schema.FailedBack } } },
    async (request, reply) => {
      const outlook = await look()
      return carryOut(request, reply, AREA, (tx) => failback(tx, now(), outlook))
    },
  )

  const pending = () => plane.pending().filter(({ key }) => key.startsWith(`${AREA}/`))
  const waits = (cidr: string) => pending().some(({ key }) => key.endsWith(`/${cidr}`))

  async function look(): Promise<Outlook> {
    const waiting = pending()[0]?.reason ?? ''
    const taken = active() ? '' : await takenOf(configuredVips(config))
    return { preferred: config.flag('gateway_preferred'), waiting, taken }
  }

  /** What the node uses one of them for, in words; '' where it uses none. */
  async function takenOf(vips: readonly Vip[]): Promise<string> {
    for (const { address } of vips) {
      const use = await plane.devices.useOf(address)
      if (use) return `${address} is in use on this node already (${use}): take it away first`
    }
    return ''
  }
}
