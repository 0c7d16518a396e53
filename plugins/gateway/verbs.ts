/** Commands of the gateway: the calls of REST, one by one. */
import { columns, type Verb } from '../../core/cli/verb.ts'
import type { GatewayStatus } from './schemas.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'gateway status',
    summary: 'show whether this node has the VIP',
    example: 'gateway status',
    async run({ call, print }) {
      const answer = await call<GatewayStatus>('GET', '/api/v1/gateway/status')
      const rows = [
        ['state', answer.local_state],
        ['vip', answer.vip],
        ['peer', answer.peer_addr],
        ['peer state', answer.peer_state],
        ['heartbeat', answer.heartbeat],
        ['connections', answer.active_conns],
        ['uptime', answer.uptime],
      ]
      print(answer, columns(rows))
    },
  },
  {
    path: 'gateway failover',
    summary: 'yield the VIP; this node is standby when the command ends',
    example: 'gateway failover',
    async run({ call, print }) {
      print(await call<object>('POST', '/api/v1/gateway/failover'), 'the VIP is released')
    },
  },
  {
    path: 'gateway failback',
    summary: 'take the VIP; make sure that the peer does not have it',
    example: 'gateway failback',
    async run({ call, print }) {
      print(await call<object>('POST', '/api/v1/gateway/failback'), 'this node has the VIP')
    },
  },
]
