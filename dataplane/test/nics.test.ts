import { execFileSync } from 'node:child_process'
import t from 'tap'
import { netns, requireRoot } from '../../test/netns.ts'
import { inNamespace } from '../libc.ts'
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../netlink/bind.ts'
import { openNetlink } from '../netlink/socket.ts'
import { listNics } from '../nics.ts'

requireRoot(t)

/** What iproute2 says of the devices that have a parent on a bus. */
function byIproute(): { ifname: string; up: boolean }[] {
  const links: { ifname: string; parentdev?: string; flags: string[] }[] = JSON.parse(
    execFileSync('ip', ['-j', '-d', 'link'], { encoding: 'utf8' }),
  )
  return links
    .filter(({ parentdev }) => parentdev !== undefined)
    .map(({ ifname, flags }) => ({ ifname, up: flags.includes('LOWER_UP') }))
    .sort((a, b) => (a.ifname < b.ifname ? -1 : 1))
}

t.test('the cards are those that have a device behind them, virtual links are left out', async (t) => {
  const [route, generic] = [openNetlink(NETLINK_ROUTE), openNetlink(NETLINK_GENERIC)]
  t.teardown(() => Promise.all([route.close(), generic.close()]))
  const nics = await listNics(route, generic)
  t.same(
    nics.map(({ name, status }) => ({ ifname: name, up: status === 'up' })),
    byIproute(),
  )
  for (const nic of nics) {
    t.match(nic.driver, /^[A-Za-z0-9_-]+$/, `${nic.name} has a driver`)
    t.ok(Number.isInteger(nic.speedMbps) && nic.speedMbps >= 0)
  }
})

t.test('a namespace with virtual links only has none', async (t) => {
  const ns = netns(t)
  ns.run('ip', 'link', 'add', 'one', 'type', 'veth', 'peer', 'name', 'other')
  const [route, generic] = inNamespace(ns.path, () => [openNetlink(NETLINK_ROUTE), openNetlink(NETLINK_GENERIC)])
  t.teardown(() => Promise.all([route?.close(), generic?.close()]))
  t.ok(route && generic)
  if (route && generic) t.same(await listNics(route, generic), [])
})
