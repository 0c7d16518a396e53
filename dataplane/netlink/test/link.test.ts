import { open } from 'node:fs/promises'
import t from 'tap'
import { netns, requireRoot } from '../../../test/netns.ts'
import { ROUTE_PROTOCOL } from '../../numbers.ts'
import { addAddress, deleteAddress, listAddresses } from '../address.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import {
  createBridge,
  createVeth,
  deleteLink,
  deleteLinks,
  getLink,
  listLinks,
  setLink,
  TEARDOWN_GROUP,
} from '../link.ts'
import { addNeighbour, deleteNeighbour, listNeighbours, replaceNeighbour } from '../neighbour.ts'
import type { Netlink } from '../socket.ts'
import { netlinkIn } from './open.ts'

requireRoot(t)

async function indexOf(netlink: Netlink, name: string): Promise<number> {
  const link = await getLink(netlink, name)
  if (!link) throw new Error(`no link ${name}`)
  return link.index
}

t.test('a veth pair and a bridge are made, changed, listed and removed', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  t.match(await listLinks(netlink), [{ index: 1, name: 'lo', up: true, mac: '00:00:00:00:00:00' }])

  t.same(
    await netlink.request([
      createBridge({ name: 'br-test', up: true, netfilter: false, stp: false, multicastSnooping: false }),
      createVeth({ name: 'sta', mac: '02:00:00:00:00:0a', mtu: 1400, group: 7, up: true }, { name: 'stb', mtu: 1300 }),
    ]),
    [undefined, undefined],
  )
  const bridge = await indexOf(netlink, 'br-test')
  await netlink.command(setLink('stb', { master: bridge, up: true, mtu: 1450 }))

  t.match(await getLink(netlink, 'sta'), {
    name: 'sta',
    kind: 'veth',
    mac: '02:00:00:00:00:0a',
    mtu: 1400,
    up: true,
    group: 7,
  })
  const port = await getLink(netlink, await indexOf(netlink, 'stb'))
  t.match(port, { name: 'stb', kind: 'veth', mtu: 1450, up: true, master: bridge, group: 0 })
  const detail = ns.run('ip', '-d', 'link', 'show', 'br-test')
  t.match(detail, /nf_call_iptables 0 nf_call_ip6tables 0/)
  t.match(detail, /mcast_snooping 0/)

  await netlink.command(setLink(port?.index ?? 0, { master: 0, up: false, name: 'stc' }))
  t.same((await getLink(netlink, 'stc'))?.master, undefined, 'released from the bridge')
  t.equal((await getLink(netlink, 'stc'))?.up, false)

  await netlink.command(deleteLink('sta'))
  await netlink.command(deleteLink(bridge))
  t.same(
    (await listLinks(netlink)).map(({ name }) => name),
    ['lo'],
  )
  t.equal(await getLink(netlink, 'sta'), undefined)
  t.equal(await getLink(netlink, bridge), undefined)
})

t.test('a link can be made with its peer in another namespace', async (t) => {
  const here = netns(t, 'a')
  const there = netns(t, 'b')
  const netlink = netlinkIn(t, here, NETLINK_ROUTE)
  const file = await open(there.path)
  t.teardown(() => file.close())
  await netlink.command(createVeth({ name: 'sta' }, { name: 'stb', namespace: file.fd }))
  t.same(
    (await listLinks(netlink)).map(({ name }) => name),
    ['lo', 'sta'],
  )
  t.match(await listLinks(netlinkIn(t, there, NETLINK_ROUTE)), [{ name: 'lo' }, { name: 'stb', kind: 'veth' }])
})

t.test('many links are removed together, and nothing else', async (t) => {
  const netlink = netlinkIn(t, netns(t), NETLINK_ROUTE)
  const names = Array.from({ length: 12 }, (_, n) => `st${n}`)
  await netlink.request(names.map((name) => createVeth({ name }, { name: `${name}p` })))
  await netlink.command(createBridge({ name: 'keep' }))
  const indexes = (await listLinks(netlink)).filter(({ name }) => names.includes(name)).map(({ index }) => index)
  t.equal(indexes.length, 12)

  await netlink.command(setLink('keep', { group: TEARDOWN_GROUP }))
  await t.rejects(deleteLinks(netlink, indexes), /link keep is in group/)
  t.equal((await listLinks(netlink)).length, 26, 'nothing removed while a stranger is in the group')

  await netlink.command(setLink('keep', { group: 0 }))
  await deleteLinks(netlink, [...indexes, 9999])
  t.same(
    (await listLinks(netlink)).map(({ name }) => name),
    ['lo', 'keep'],
  )
  await deleteLinks(netlink, indexes)
  await deleteLinks(netlink, [])
  t.equal((await listLinks(netlink)).length, 2, 'removing them again is no error')
})

t.test('addresses of both versions are added, listed and deleted', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  await netlink.command(createVeth({ name: 'sta', up: true }, { name: 'stb' }))
  const index = await indexOf(netlink, 'sta')
  const before = await listAddresses(netlink, { index })

  t.same(
    await netlink.request([
      addAddress({ index, cidr: '10.1.0.1/24' }),
      addAddress({ index, cidr: '10.1.0.2/32', scope: 254, protocol: 7 }),
      addAddress({ index, cidr: 'fd01::1/64', noDad: true }),
    ]),
    [undefined, undefined, undefined],
  )
  t.same(await listAddresses(netlink, { index, version: 4 }), [
    { version: 4, index, cidr: '10.1.0.2/32', scope: 254, permanent: true, unusable: false, protocol: 7 },
    { version: 4, index, cidr: '10.1.0.1/24', scope: 0, permanent: true, unusable: false, protocol: ROUTE_PROTOCOL },
  ])
  const six = (await listAddresses(netlink, { version: 6 })).filter(({ scope }) => scope === 0)
  t.same(six, [
    { version: 6, index, cidr: 'fd01::1/64', scope: 0, permanent: true, unusable: false, protocol: ROUTE_PROTOCOL },
  ])
  ns.run('ip', 'address', 'add', '10.2.0.1', 'peer', '10.2.0.2/32', 'dev', 'sta')
  t.match(
    (await listAddresses(netlink, { index })).filter(({ peer }) => peer),
    [{ cidr: '10.2.0.1/32', peer: '10.2.0.2', protocol: 0 }],
  )
  ns.run('ip', 'address', 'del', '10.2.0.1', 'peer', '10.2.0.2/32', 'dev', 'sta')

  for (const cidr of ['10.1.0.1/24', '10.1.0.2/32', 'fd01::1/64']) await netlink.command(deleteAddress({ index, cidr }))
  t.same(await listAddresses(netlink, { index }), before)
})

t.test('neighbours of both versions are added, overwritten, listed and deleted', async (t) => {
  const netlink = netlinkIn(t, netns(t), NETLINK_ROUTE)
  await netlink.command(createVeth({ name: 'sta', up: true }, { name: 'stb' }))
  const index = await indexOf(netlink, 'sta')
  const mine = async () => (await listNeighbours(netlink, { index })).filter(({ state }) => state !== 'noarp')
  t.same(await mine(), [])

  await netlink.command(addNeighbour({ index, address: '10.1.0.9', mac: '02:00:00:00:00:09' }))
  await netlink.command(addNeighbour({ index, address: 'fd01::9', mac: '02:00:00:00:00:09', state: 'stale' }))
  t.same(await mine(), [
    { version: 4, index, address: '10.1.0.9', state: 'permanent', mac: '02:00:00:00:00:09' },
    { version: 6, index, address: 'fd01::9', state: 'stale', mac: '02:00:00:00:00:09' },
  ])
  await netlink.command(replaceNeighbour({ index, address: '10.1.0.9', mac: '02:00:00:00:00:0a' }))
  t.match(await listNeighbours(netlink, { version: 4 }), [{ address: '10.1.0.9', mac: '02:00:00:00:00:0a' }])

  await netlink.command(deleteNeighbour({ index, address: '10.1.0.9' }))
  await netlink.command(deleteNeighbour({ index, address: 'fd01::9' }))
  t.same(await mine(), [])
  await t.rejects(netlink.command(deleteNeighbour({ index, address: '10.1.0.9' })), { code: 'ENOENT' })
})
