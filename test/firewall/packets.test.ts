import t from 'tap'
import { routable } from './address.ts'
import { ADVERSARIES } from './adversarial.ts'
import { dice } from './dice.ts'
import { inside, PROTOCOLS, packets } from './packets.ts'
import { matcher, reference } from './reference.ts'
import { DEVICES, mixed, NO_DEVICE } from './rulesets.ts'

t.test('a seed makes the same packets again, another seed others', async (t) => {
  const rules = mixed(50, 1)
  t.same(packets(rules, 100, 4), packets(rules, 100, 4))
  t.notSame(packets(rules, 100, 4), packets(rules, 100, 5))
})

t.test('no two packets are of one connection, in either direction', async (t) => {
  const list = packets(mixed(100, 1), 5000, 1)
  const keys = list.flatMap(({ source, dest, protocol, sourcePort, destPort, ident }) => {
    const [from, to] = [`${source}/${sourcePort}`, `${dest}/${destPort}`]
    return [`${protocol} ${ident} ${from} ${to}`, `${protocol} ${ident} ${to} ${from}`]
  })
  t.equal(new Set(keys).size, keys.length)
})

t.test('packets are of both families, all devices, with and without ports, and can be routed', async (t) => {
  const list = packets(mixed(1000, 1), 3000, 2)
  for (const family of [4, 6]) t.ok(list.filter((packet) => packet.family === family).length > 100)
  for (const device of DEVICES) t.ok(list.filter((packet) => packet.interface === device).length > 100)
  const { tcp, udp, icmp, icmp6 } = PROTOCOLS
  for (const protocol of [tcp, udp, icmp, icmp6, 50]) t.ok(list.some((packet) => packet.protocol === protocol))
  t.ok(list.every(({ source, dest }) => routable(source) && routable(dest)))
  const ported = ({ protocol }: { protocol: number }) => protocol === tcp || protocol === udp
  t.ok(list.every((packet) => ported(packet) === packet.sourcePort > 0 && ported(packet) === packet.destPort > 0))
})

t.test('a point inside a rule is matched by it', async (t) => {
  const draw = dice(3)
  for (const { make } of [{ make: mixed }, ...ADVERSARIES]) {
    const rules = make(300, 2).filter(({ match }) => match.interface !== NO_DEVICE)
    t.ok(rules.every((one) => matcher(one.match)(inside(draw, one, rules))))
  }
})

t.test('packets lie on both sides of the borders, and many rules decide', async (t) => {
  const rules = mixed(300, 8)
  const decide = reference(rules)
  const deciders = packets(rules, 2000, 8).map(decide)
  t.ok(deciders.filter((one) => one === undefined).length > 100)
  t.ok(deciders.filter((one) => one?.accept).length > 300)
  t.ok(deciders.filter((one) => one && !one.accept).length > 300)
  t.ok(new Set(deciders).size > 100)
})
