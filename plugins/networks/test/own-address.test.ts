/** A range never holds an address of the node itself, whatever device that is on; in a network namespace of its own. */
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { networks, P } from './area.ts'

if (requireRoot(t) && here !== undefined) run()

function run() {
  t.test('routed-12 a block with an address of the server itself is 409, as long as it has it', async (t) => {
    const { call, unchanged } = await networks(t)
    const post = (cidr: string) => call('POST', `${P}/routed-addresses`, { cidr })
    const address = (verb: string) => execFileSync('ip', ['address', verb, '8.8.4.7/32', 'dev', 'lo'])
    address('add')
    for (const cidr of ['8.8.4.7', '8.8.4.0/28', '8.8.0.0/20']) {
      const { status, body } = await unchanged(() => post(cidr))
      t.equal(status, 409, cidr)
      t.match(body.error, /holds 8\.8\.4\.7, an address of this node itself$/)
    }
    t.equal((await post('8.8.4.6/32')).status, 201, 'its neighbour is free')
    address('del')
    t.equal((await post('8.8.4.7')).status, 201)
  })
}
