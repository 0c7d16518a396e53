/** Floating IPs that other members of a cluster add, move and delete, on the real kernel. */
import { join } from 'node:path'
import t from 'tap'
import type { Row } from '../../../core/replication.ts'
import type { Elsewhere } from '../../../test/mate-agent.ts'
import { requireRoot } from '../../../test/netns.ts'
import { segment, until } from '../../../test/segment.ts'
import { FLOAT } from './area.ts'

requireRoot(t)

const IP = '10.9.0.20'
const main = join(import.meta.dirname, '..', '..', '..', 'test', 'mate-agent.js')

t.test('one that another member gives to this node answers here, and no longer when it takes it away', async (t) => {
  const { agent, node, heard, held, known, answers, mac, plug } = await segment(t, { main })
  const elsewhere = async (...changes: Elsewhere[]) => {
    const { status, text } = await agent.call('POST', '/control/v1/mates', { changes })
    if (status !== 200) throw new Error(`${status} ${text}`)
  }
  const row = (primary: string): Row => ({
    id: 'fip-1',
    ip: IP,
    primary,
    standby: '',
    created_at: '2030-01-01T00:00:00Z',
  })
  const collection = 'float_addresses'
  const shown = async () => {
    const { primary, active_host, state } = (await agent.call('GET', `${FLOAT}/fip-1`)).body
    return [primary, active_host, state]
  }
  await elsewhere({ collection, after: row('n2') })
  t.same([held(), await shown()], [[], ['n2', 'n2', 'standby']])
  await elsewhere({ collection, after: row('n1') })
  t.same([held(), await shown()], [[`eth0 ${IP}/32`], ['n1', 'n1', 'active']])
  await heard.until(IP, 5)
  t.same([answers(IP), known(IP)], [true, mac(node)])

  await agent.kill('SIGKILL')
  t.ok(answers(IP), 'without an agent')
  await agent.restart()
  t.same([held(), answers(IP)], [[`eth0 ${IP}/32`], true])

  await elsewhere({ collection, after: row('n3') })
  t.same([held(), answers(IP)], [[], false])
  node.run('ip', 'link', 'del', 'eth0')
  await elsewhere({ collection, after: row('n1') })
  t.same([held(), (await shown())[2]], [[], 'active'], 'it waits for its device')
  plug()
  await until('the address is there', () => held().length === 1)
  await elsewhere({ collection, before: { id: 'fip-1' } })
  t.same([held(), (await agent.call('GET', `${FLOAT}/fip-1`)).status], [[], 404])
})
