/** A port whose last bound MAC went or was placed elsewhere: its guest hears nothing more, from the answer on. */
import '../../../../test/inside.ts'
import t from 'tap'
import { arrives, frame } from '../../../../test/frames.ts'
import { requireRoot } from '../../../../test/netns.ts'
import { SLOT_HOME, SLOT_WORD_BITS } from '../../../numbers.ts'
import { bpffs } from '../../test/support.ts'
import { type Binding, binding, net } from '../entries.ts'
import { portMaps } from '../maps.ts'
import { bridged, opened } from './rig.ts'

requireRoot(t)

const NET = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })
const bound = (address: string, mac: string) => binding('networks', { net: 1, address, mac, routed: [] })

t.test('from the answer on a port without bound MACs hears its former network no more', async (t) => {
  const { a, b, c, d, e } = bridged(t, ['a', 'b', 'c', 'd', 'e'])
  if (!a || !b || !c || !d || !e) throw new Error('no guests')
  const { driver, ports, close } = await opened(t, bpffs(t))
  t.teardown(close)
  await driver.observe([])
  const second = '02:00:00:00:00:99'
  const [one, two, three] = [a, b, c].map(({ tap }, n) => bound(`10.0.0.${n + 1}`, tap.mac)) as [
    Binding,
    Binding,
    Binding,
  ]
  const other = bound('10.0.0.9', second)
  const entries = [NET, one, two, three, other, bound('10.0.0.4', d.tap.mac), bound('10.0.0.5', e.tap.mac)]
  await driver.apply(entries.map((after) => ({ after })))
  for (const { tap } of [a, b, c, d, e]) tap.send(frame({ from: tap.mac }, Buffer.alloc(46)))
  c.tap.send(frame({ from: second }, Buffer.alloc(46)))

  /** Who hears what `d` says to everybody, by the time that `e` does. */
  const hear = async (said: string) => {
    d.tap.send(frame({ from: d.tap.mac }, Buffer.from(said)))
    await arrives(d.tap, e.tap, {})
    return Object.entries({ a, b, c }).flatMap(([name, { tap }]) =>
      tap.seen().some((it) => it.includes(said)) ? [name] : [],
    )
  }
  t.same(await hear('all are there'), ['a', 'b', 'c'])
  await driver.apply([{ before: one }])
  t.same(await hear('one is unbound'), ['b', 'c'])
  await driver.apply([{ before: two }])
  t.same(await hear('two is unbound right after it'), ['c'])
  await driver.apply([{ before: three }])
  t.same(await hear('the port of three has another MAC of the network'), ['c'])
  await driver.apply([{ before: other, after: { ...other, port: 'z' } }])
  t.same(await hear('which gets another port'), [])
  t.same(
    ports
      .list()
      .flatMap(({ name, net }) => (net === 1 ? [name] : []))
      .sort(),
    ['d', 'e'],
  )
})

t.test('an agent that follows one whose program did not note who is at which port finds that out', async (t) => {
  const root = bpffs(t)
  const { a, b, c } = bridged(t, ['a', 'b', 'c'])
  if (!a || !b || !c) throw new Error('no guests')
  const entries = [NET, ...[a, b, c].map(({ tap }, n) => bound(`10.0.0.${n + 1}`, tap.mac))]
  const first = await opened(t, root)
  await first.driver.observe([])
  await first.driver.apply(entries.map((after) => ({ after })))
  for (const { tap } of [a, b, c]) tap.send(frame({ from: tap.mac }, Buffer.alloc(46)))
  t.ok(await arrives(a.tap, b.tap, {}))
  const { slots } = portMaps(first.programs.object)
  for (let slot = 0; slot < 3; slot++) slots.set((slot << SLOT_WORD_BITS) | SLOT_HOME, 0n)
  await first.close()

  const { driver, ports, close } = await opened(t, root)
  t.teardown(close)
  await driver.observe(entries)
  await driver.apply([{ ...(entries[3] && { before: entries[3] }) }])
  t.same(
    ports
      .list()
      .map(({ name, net }) => `${name} ${net}`)
      .sort(),
    ['a 1', 'b 1', 'br-work 0', 'c 0'],
  )
  t.ok(await arrives(a.tap, b.tap, { to: b.tap.mac }))
})
