/** Addresses as sortable text. */
import t from 'tap'
import { hostsOf, moved, parseAddress, parseSubnet, type Subnet, textOf } from '../address.ts'

const subnet = (text: string): Subnet => {
  const read = parseSubnet(text)
  if (typeof read === 'string') throw new Error(read)
  return read
}

t.test('ipam-07 what is an address, and its text', async (t) => {
  const table: [string, string | undefined, string?][] = [
    ['10.0.0.5', '0a000005'],
    ['255.255.255.255', 'ffffffff'],
    ['::', '0'.repeat(32)],
    ['fd00:0:0::A', 'fd00000000000000000000000000000a', 'fd00::a'],
    ['::ffff:1.2.3.4', '00000000000000000000ffff01020304', '::ffff:102:304'],
    ['10.0.0.5/32', undefined],
    ['10.0.0', undefined],
    ['010.0.0.1', undefined],
    ['fe80::1%eth0', undefined],
    ['', undefined],
    ['x', undefined],
  ]
  for (const [text, hex, shown = text] of table) {
    const address = parseAddress(text)
    t.equal(address?.hex, hex, text)
    if (address) t.equal(textOf(address.hex), shown, `${text} and back`)
  }
  t.throws(() => textOf('zz'), /not an address/)
})

t.test('D19 a subnet has a length and no host bits', async (t) => {
  t.match(subnet('10.0.0.7/32'), { text: '10.0.0.7/32', first: '0a000007', last: '0a000007', length: 32 })
  t.match(subnet('FD00::/126'), { family: 6, text: 'fd00::/126', last: 'fd000000000000000000000000000003' })
  t.match(subnet('0.0.0.0/0'), { first: '00000000', last: 'ffffffff' })
  for (const text of [
    '10.0.0.1',
    'x/8',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0.0/',
    '/8',
    '10.0.0.0/-1',
    '10.0.0.0/08',
  ]) {
    t.match(parseSubnet(text), /not a CIDR/, text)
  }
  t.equal(parseSubnet('10.0.0.5/24'), 'has host bits set: the block is 10.0.0.0/24')
  t.equal(parseSubnet('fd00::5/64'), 'has host bits set: the block is fd00::/64')
})

t.test('ipam-04 D48 first and last host address', async (t) => {
  const table: [string, string, string][] = [
    ['10.0.0.0/24', '10.0.0.1', '10.0.0.254'],
    ['10.0.0.0/30', '10.0.0.1', '10.0.0.2'],
    ['10.0.0.0/31', '10.0.0.0', '10.0.0.1'],
    ['10.0.0.9/32', '10.0.0.9', '10.0.0.9'],
    ['fd00::/64', 'fd00::1', 'fd00::ffff:ffff:ffff:ffff'],
    ['fd00::/126', 'fd00::1', 'fd00::3'],
    ['fd00::/127', 'fd00::', 'fd00::1'],
    ['fd00::9/128', 'fd00::9', 'fd00::9'],
  ]
  for (const [text, first, last] of table) {
    const hosts = hostsOf(subnet(text))
    t.same([textOf(hosts.first), textOf(hosts.last)], [first, last], text)
  }
})

t.test('the neighbour of an address, and of the outermost ones', async (t) => {
  t.equal(moved('0a0000ff', 1n), '0a000100')
  t.equal(moved('0a000100', -1n), '0a0000ff')
  t.equal(moved('f'.repeat(32), 1n), '')
  t.equal(moved('0'.repeat(8), -1n), '')
})
