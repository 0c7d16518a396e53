import t from 'tap'
import { prefixOf } from './address.ts'
import { iptablesRules, linearIptables } from './iptables.ts'
import { linearNft, nftRule } from './nft-text.ts'
import { rule } from './rulesets.ts'

const V4 = { source: prefixOf([0xc0000200], 24), dest: prefixOf([0xc6336401], 32) }
const V6 = { dest: prefixOf([0x20010db8, 0, 0, 1], 128) }

t.test('rules as nft has them', async (t) => {
  const text = (match: Parameters<typeof rule>[3], accept = true) => nftRule(rule(1, [0, 0], accept, match))
  t.equal(text({}), 'accept')
  t.equal(text({ ...V4 }, false), 'ip saddr 192.0.2.0/24 ip daddr 198.51.100.1 drop')
  t.equal(text(V6), 'ip6 daddr 2001:db8::1 accept')
  t.equal(text({ source: prefixOf([0], 0) }), 'meta nfproto ipv4 accept')
  t.equal(text({ protocol: 'icmp' }), 'ip protocol icmp accept')
  t.equal(text({ protocol: 'udp' }), 'meta l4proto udp accept')
  t.equal(text({ protocol: 'tcp', destPorts: [80, 80] }), 'meta l4proto tcp th dport 80 accept')
  t.equal(text({ destPorts: [80, 90], sourcePort: 7 }), 'meta l4proto @ported th sport 7 th dport 80-90 accept')
  t.equal(text({ interface: 'in0', mac: '02:00:00:00:00:01' }), 'iifname "in0" ether saddr 02:00:00:00:00:01 accept')
  const all = linearNft([rule(2, [1, 0], true, V4), rule(1, [0, 0], false, V6)], false)
  t.match(all, /established,related accept\n +ip6 daddr \S+ drop\n +ip saddr \S+ ip daddr \S+ accept\n +drop\n/)
})

t.test('rules as iptables has them, in the table of their family', async (t) => {
  const texts = (match: Parameters<typeof rule>[3], family: 4 | 6) =>
    iptablesRules(rule(1, [0, 0], true, match), family)
  t.same(texts(V4, 4), ['-A PREROUTING -s 192.0.2.0/24 -d 198.51.100.1 -j ACCEPT'])
  t.same(texts(V4, 6), [])
  t.same(texts(V6, 6), ['-A PREROUTING -d 2001:db8::1 -j ACCEPT'])
  t.same(texts({ protocol: 'icmp' }, 6), [])
  t.same(
    texts({ interface: 'in0', mac: '02:00:00:00:00:01', sourcePort: 7, destPorts: [80, 90] }, 4),
    ['tcp', 'udp'].map(
      (name) =>
        `-A PREROUTING -i in0 -p ${name} -m mac --mac-source 02:00:00:00:00:01 --sport 7 --dport 80:90 -j ACCEPT`,
    ),
  )
  t.match(linearIptables([], 4), /ESTABLISHED,RELATED -j ACCEPT\n-A PREROUTING -j DROP\nCOMMIT\n$/)
})
