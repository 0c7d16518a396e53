/** How addresses are read: whatever is written, either a host's address in canonical text or nothing. */
import { isIP } from 'node:net'
import t from 'tap'
import { address } from '../../../dataplane/netlink/entries.ts'
import { fc } from '../../../test/property.ts'
import { hostAddress, problemWithVips, readVip } from '../vip.ts'

t.test('addresses of hosts are read, others are not', async (t) => {
  const good: [string, string, string][] = [
    ['192.0.2.10', '192.0.2.10', '192.0.2.10/32'],
    ['192.0.2.10/24', '192.0.2.10', '192.0.2.10/24'],
    ['2001:DB8::10', '2001:db8::10', '2001:db8::10/128'],
    ['2001:db8:0:0::10/64', '2001:db8::10', '2001:db8::10/64'],
    ['fe80::1', 'fe80::1', 'fe80::1/128'],
    ['169.254.1.1/16', '169.254.1.1', '169.254.1.1/16'],
  ]
  for (const [text, bare, cidr] of good) t.match(readVip(text), { address: bare, cidr })
  const bad = ['', 'x', '0.0.0.0', '127.0.0.1', '224.0.0.1', '255.255.255.255', '240.0.0.1', '::', '::1', 'ff02::1']
  const worse = [
    '::ffff:192.0.2.1',
    '192.0.2.1/33',
    '192.0.2.1/',
    '192.0.2.1/0',
    '192.0.2.1/24/24',
    '01.2.3.4',
    'fe80::1%eth0',
  ]
  for (const text of [...bad, ...worse]) t.equal(readVip(text), undefined, text)
  t.equal(hostAddress('192.0.2.1/32'), undefined)
  t.match(problemWithVips(['192.0.2.1', '192.0.2.1/24']), /named twice/)
  t.match(problemWithVips(Array.from({ length: 9 }, (_, n) => `192.0.2.${n + 1}`)), /at most 8/)
  t.match(problemWithVips(['192.0.2.1', 'nowhere']), /not an address for a host.*: nowhere/)
})

t.test('whatever is read can be put on a device, and reads the same again', async () => {
  const text = fc.oneof(
    fc.string(),
    fc.ipV4(),
    fc.ipV6(),
    fc
      .tuple(fc.oneof(fc.ipV4(), fc.ipV6()), fc.integer({ min: -1, max: 200 }))
      .map(([ip, length]) => `${ip}/${length}`),
    fc.stringMatching(/^[0-9a-f:./%]{0,50}$/),
  )
  fc.assert(
    fc.property(text, (input) => {
      const vip = readVip(input)
      if (vip === undefined) return
      const entry = address('gateway', { link: 'eth0', address: vip.cidr })
      if (isIP(vip.address) !== vip.family) throw new Error(`${vip.address} is not IPv${vip.family}`)
      if (readVip(vip.cidr)?.cidr !== vip.cidr) throw new Error(`${vip.cidr} reads otherwise again`)
      if (!entry.key.endsWith(vip.cidr)) throw new Error(`${entry.key} is not of ${vip.cidr}`)
    }),
    { numRuns: 3000 },
  )
})
