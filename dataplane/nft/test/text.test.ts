/** Nothing but canonical text of parsed values may reach libnftables. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { atOnce } from '../../slices.ts'
import { elementsOf, parseListing } from '../listing.ts'
import { comment, contains, parseMac, parsePrefix, quotedInterface } from '../text.ts'

t.test('addresses and prefixes are read strictly and written canonically', async (t) => {
  const good: [string, string][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.77/24', '192.0.2.0/24'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['192.0.2.1/32', '192.0.2.1'],
    ['2001:DB8:0:0::1', '2001:db8::1'],
    ['2001:db8:ffff::/33', '2001:db8:8000::/33'],
    ['::/0', '::/0'],
  ]
  for (const [input, text] of good) t.equal(parsePrefix(input)?.text, text, input)
  const bad = [
    '',
    '1',
    '010.0.0.1',
    '1.2.3',
    '1.2.3.4.5',
    '256.0.0.1',
    '1.2.3.4/33',
    '1.2.3.4/',
    '1.2.3.4/-1',
    '1.2.3.4/08',
    '1.2.3.4/1e1',
    'localhost',
    '::1%eth0',
    ':::',
    '2001:db8::/129',
    '1.2.3.4 ',
    ' 1.2.3.4',
    '0x7f000001',
    '1.2.3.4;',
    '٣.0.0.1',
  ]
  for (const input of bad) t.equal(parsePrefix(input), undefined, JSON.stringify(input))
})

t.test('MAC addresses are read in both spellings, not in a mixture', async (t) => {
  t.equal(parseMac('AA-bb-CC-dd-EE-01'), 'aa:bb:cc:dd:ee:01')
  for (const bad of ['aa:bb:cc:dd:ee', 'aa:bb-cc:dd:ee:ff', 'aabbccddeeff', 'gg:bb:cc:dd:ee:ff', 'aa:bb:cc:dd:ee:ff\n'])
    t.equal(parseMac(bad), undefined, JSON.stringify(bad))
})

t.test('any text is refused or comes back as plain tokens', async (t) => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.ipV4(), fc.ipV6()), (input) => {
      const prefix = parsePrefix(input)
      const mac = parseMac(input)
      return (!prefix || /^[0-9a-f.:/]+$/.test(prefix.text)) && (!mac || /^[0-9a-f:]{17}$/.test(mac))
    }),
    { numRuns: 3000, seed: 7 },
  )
  for (const evil of ['a"b', 'a b', 'x;', '', 'a'.repeat(16), 'é']) t.throws(() => quotedInterface(evil))
  for (const evil of ['a"; delete table inet stratum; "', 'a\n', '']) t.throws(() => comment(evil))
})

t.test('containment agrees with the bits', async (t) => {
  fc.assert(
    fc.property(fc.ipV4(), fc.ipV4(), fc.integer({ min: 0, max: 32 }), (a, b, length) => {
      const [outer, inner] = [parsePrefix(`${a}/${length}`), parsePrefix(b)]
      const number = (text: string) => text.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
      const same = Math.floor(number(a) / 2 ** (32 - length)) === Math.floor(number(b) / 2 ** (32 - length))
      return outer !== undefined && inner !== undefined && contains(outer, inner) === same
    }),
    { numRuns: 2000, seed: 7 },
  )
  t.pass()
})

t.test('a listing is read back, and no text makes the reader throw', async (t) => {
  const text =
    'table inet stratum {\n\tset s {\n\t\ttype ipv4_addr . inet_service\n\t\telements = { 192.0.2.1 . 80,\n\t\t\t     192.0.2.2 . 81 }\n\t}\n\n' +
    '\tchain c {\n\t\ttype filter hook prerouting priority mangle; policy accept;\n\t\tip saddr 192.0.2.1 drop comment "k 1.2 ab"\n\t\tjump d\n\t}\n}\n'
  const listing = atOnce(parseListing(text))
  t.same(listing.chains.get('c'), [
    { text: 'ip saddr 192.0.2.1 drop', comment: 'k 1.2 ab' },
    { text: 'jump d', comment: '' },
  ])
  t.same([...elementsOf(listing, 's')], ['192.0.2.1 . 80', '192.0.2.2 . 81'])
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('\tchain a {', '\t}', '\t\tdrop', '}', '\tset s {', '\t\telements = {', ' ', 'x "')),
      (lines) => {
        return [...elementsOf(atOnce(parseListing(lines.join('\n'))), 's')].every((element) => element !== '')
      },
    ),
    { numRuns: 500, seed: 7 },
  )
})
