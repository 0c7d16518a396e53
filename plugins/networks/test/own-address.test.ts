/** A range never holds an address of the node itself, whatever device that is on; in a network namespace of its own. */
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { openDevices } from '../../../dataplane/devices.ts'
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../../../dataplane/netlink/bind.ts'
import { openNetlink } from '../../../dataplane/netlink/socket.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { here } from '../../../test/inside.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import { networks, P } from './area.ts'

/** A plane in memory that sees the devices of this namespace. */
function planeHere(t: Scope) {
  const [route, generic] = [openNetlink(NETLINK_ROUTE), openNetlink(NETLINK_GENERIC)]
  t.teardown(() => Promise.all([route.close(), generic.close()]))
  const plane = fakePlane()
  Object.assign(plane.devices, openDevices(route, generic))
  return plane
}

if (requireRoot(t) && here !== undefined) run()

function run() {
  t.test('routed-12 a block with an address of the server itself is 409, as long as it has it', async (t) => {
    const plane = planeHere(t)
    const { call, unchanged } = await networks(t, { plane })
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

  t.test(
    'routed-12 a device has any name that the kernel takes, and its addresses are known all the same',
    async (t) => {
      const plane = planeHere(t)
      const { call } = await networks(t, { plane })
      for (const [at, name] of ['constructor', '__proto__', 'toString'].entries()) {
        const ip = (...args: string[]) => execFileSync('ip', args)
        ip('link', 'add', name, 'type', 'bridge')
        t.teardown(() => ip('link', 'delete', name))
        ip('address', 'add', `8.8.4.${16 + at}/32`, 'dev', name)
        ip('link', 'set', name, 'up')
        const answer = await call('POST', `${P}/routed-addresses`, { cidr: `8.8.4.${16 + at}` })
        t.equal(answer.status, 409, `${name}: ${answer.text}`)
      }
    },
  )
}
