import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import '../../../test/inside.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { followDefaultRoute } from '../default-route.ts'
import { openNetlink } from '../socket.ts'

const ip = (line: string) => execFileSync('ip', line.split(' '), { encoding: 'utf8' })
const cable = (name: string) => {
  ip(`link add ${name} type veth peer name ${name}p`)
  ip(`link set ${name}p up`)
  ip(`link set ${name} up`)
}

requireRoot(t)

t.test('the device of the default route is followed through every way of losing it', async (t) => {
  cable('up0')
  cable('up1')
  ip('addr add 192.0.2.1/24 dev up0')
  ip('addr add 198.51.100.1/24 dev up1')
  const netlink = openNetlink(NETLINK_ROUTE)
  t.teardown(() => netlink.close())
  const followed = await followDefaultRoute(netlink)
  t.teardown(() => followed.close())
  t.equal(followed.device(), undefined, 'none yet')

  const changes = new EventTarget()
  followed.onChange(() => changes.dispatchEvent(new Event('change')))
  const step = async (what: string, line: string, device: string | undefined) => {
    const changed = once(changes, 'change', { signal: AbortSignal.timeout(10_000) })
    ip(line)
    await changed
    t.equal(followed.device(), device, what)
  }
  await step('a default route comes', 'route add default via 192.0.2.254 metric 100', 'up0')
  await step('one with a lower metric wins', 'route add default via 198.51.100.254 metric 50', 'up1')
  await step('a device that goes down takes its route along', 'link set up1 down', 'up0')
  ip('-6 addr add 2001:db8::1/64 dev up1 nodad')
  await step('a device that is renamed keeps its route', 'link set up0 name wan0', 'wan0')
  await step('a deleted route', 'route del default', undefined)
  ip('link set up1 up')
  await step('IPv6 alone counts', '-6 route add default dev up1', 'up1')
  await step('IPv4 comes first', 'route add default via 192.0.2.254', 'wan0')
  await step('a device that is deleted', 'link del wan0', 'up1')
})

t.test('what was there before is known at once', async (t) => {
  cable('up2')
  ip('route add default dev up2')
  const netlink = openNetlink(NETLINK_ROUTE)
  t.teardown(() => netlink.close())
  const followed = await followDefaultRoute(netlink)
  t.teardown(() => followed.close())
  t.equal(followed.device(), 'up2')
})
