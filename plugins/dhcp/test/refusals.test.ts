/** Who is refused because its binding has gone, for how long, and where. */
import t from 'tap'
import { openBook } from '../../../responder/dhcp/book.ts'
import { type DhcpArea, dhcpArea, MAC, OTHER, START } from './area.ts'

const UNTIL = START / 1000 + 3600
const told = ({ plane }: DhcpArea) =>
  [...plane.entries.keys()].filter((key) => /^dhcp\/(former|refusal)\//.test(key)).sort()
const of = (...macs: string[]) => ['former', 'refusal'].flatMap((what) => macs.map((mac) => `dhcp/${what}/${mac}`))

t.test('dhcp-05 a MAC is refused from its detach until its lease would be over', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.hear()
  t.same(told(area), [], 'while it is bound')
  await area.detach(network, endpoint)
  t.same(told(area), of(MAC), 'by the detach itself')
  await area.hear({ state: 'revoked', unbound: true, at: START + 5 })
  t.same(told(area), of(MAC))
  t.match(area.plane.entries.get(`dhcp/former/${MAC}`), { kind: 'former', net: 1, address: '10.0.0.5', mac: MAC })
  t.match(area.plane.entries.get(`dhcp/refusal/${MAC}`), { kind: 'dhcp_refusal', net: 1, mac: MAC, until: UNTIL })
  const again = await area.attach(network, '10.0.0.5')
  t.same(told(area), [], 'and no more when it is bound again')
  await area.ok('PUT', `/api/v1/networks/${network}/endpoints/${again}/mac`, { mac: OTHER })
  t.same(told(area), of(MAC), 'and again when another has its place')
  area.clock.now = UNTIL * 1000
  while (told(area).length > 0) await new Promise((wait) => setTimeout(wait, 10))
})

t.test('a client that gave its lease back by itself has nothing to be refused', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.hear()
  await area.hear({ state: 'revoked', at: START + 5 })
  await area.detach(network, endpoint)
  t.same(told(area), [])
})

t.test('in a network that is not served any more nobody is refused', async (t) => {
  const area = await dhcpArea(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.hear()
  await area.detach(network, endpoint)
  await area.ok('PUT', `/api/v1/networks/${network}/host-gateway`, {})
  t.same(told(area), [])
  await area.ok('PUT', `/api/v1/networks/${network}/host-gateway`, { dhcp: true })
  t.same(told(area), of(MAC))
})

t.test('the last place of a MAC counts', async (t) => {
  const area = await dhcpArea(t)
  for (const [n, cidr] of ['10.0.0.0/24', '10.2.0.0/24'].entries()) {
    const network = await area.create({ cidr, gateway: cidr.replace('0/24', '1') })
    const address = cidr.replace('0/24', '5')
    const endpoint = await area.attach(network, address)
    await area.hear({ net: n + 1, address, at: START + n * 10 })
    await area.detach(network, endpoint)
    await area.hear({ net: n + 1, address, state: 'revoked', unbound: true, at: START + n * 10 + 5 })
  }
  t.match(area.plane.entries.get(`dhcp/former/${MAC}`), { net: 2, address: '10.2.0.5' })
})

t.test('a responder that was started anew refuses whom it is told of, and until then', async (t) => {
  const book = openBook()
  const after = { kind: 'dhcp_refusal', key: 'dhcp/refusal', net: 1, mac: MAC, until: UNTIL } as const
  book.apply([{ after }], START)
  t.same(
    [book.hadLease(1, MAC, START), book.hadLease(2, MAC, START), book.hadLease(1, OTHER, START)],
    [true, false, false],
  )
  t.notOk(book.hadLease(1, MAC, UNTIL * 1000))
  book.apply([{ before: after }], START)
  t.notOk(book.hadLease(1, MAC, START))
})
