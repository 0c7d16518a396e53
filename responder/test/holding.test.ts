import t from 'tap'
import {
  type DnsEntry,
  type DnsListener,
  dnsListener,
  dnsZone,
  type ResponderEntry,
} from '../../dataplane/responder/entries.ts'
import { openSum } from '../../dataplane/responder/protocol.ts'
import { type Engine, type EnginePassage, openHolding, Refused } from '../holding.ts'

const zone = (name: string) =>
  dnsZone('dns', { name, soa: `ns1.${name} hostmaster.${name} 1 3600 600 604800 300`, soaTtl: 300 })
const listener = (address: string) => dnsListener('dns', { address, port: 53 })

/** Remembers what it holds; refuses zones of these names and sockets on these addresses. */
function recorder<E extends ResponderEntry>(refuse: { zones: Set<string>; addresses: Set<string> }) {
  const [held, open] = [new Map<string, E>(), new Set<string>()]
  const engine: Engine<E> = {
    apply(passages: readonly EnginePassage<E>[]) {
      for (const { after } of passages) {
        if (after?.kind === 'dns_zone' && refuse.zones.has(after.name)) throw new Error(`cannot hold ${after.name}`)
      }
      for (const { before, after } of passages) {
        if (before) held.delete(before.key)
        if (after) held.set(after.key, after)
      }
    },
    async applyListeners(passages) {
      for (const { before, after } of passages) {
        if (after && refuse.addresses.has((after as unknown as DnsListener).address)) throw new Error('cannot bind it')
        if (before && !open.delete(before.key)) throw new Error(`${before.key} was not open`)
        if (after) open.add(after.key)
      }
    },
    close: async () => {},
  }
  return { engine, held, open }
}

function setUp() {
  const refuse = { zones: new Set<string>(), addresses: new Set<string>() }
  const dns = recorder<DnsEntry>(refuse)
  const holding = openHolding({ dns: dns.engine, dhcp: recorder<never>(refuse).engine })
  return { refuse, dns, holding }
}

t.test('what one part refuses leaves nothing of the batch', async (t) => {
  const { refuse, dns, holding } = setUp()
  await holding.commit([{ after: zone('a.') }, { after: listener('192.0.2.1') }], false)
  const before = { digest: await holding.digest(), held: [...dns.held.keys()], open: [...dns.open] }
  refuse.zones.add('b.')
  await t.rejects(holding.commit([{ before: zone('a.') }, { after: zone('b.') }], false), Refused)
  refuse.addresses.add('192.0.2.3')
  const three = ['192.0.2.2', '192.0.2.3'].map((address) => ({ after: listener(address) }))
  await t.rejects(holding.commit([{ after: zone('c.') }, { before: listener('192.0.2.1') }, ...three], false), Refused)
  t.same({ digest: await holding.digest(), held: [...dns.held.keys()], open: [...dns.open] }, before)
})

t.test('with patience a socket that cannot be opened waits, and the rest is in force', async (t) => {
  const { refuse, dns, holding } = setUp()
  refuse.addresses.add('192.0.2.1')
  const [bad, good] = [listener('192.0.2.1'), listener('192.0.2.2')]
  await holding.commit([{ after: zone('a.') }, { after: bad }, { after: good }], true)
  t.same([...dns.open], [good.key])
  t.same(holding.waiting(), [{ key: bad.key, reason: 'cannot bind it' }])
  t.equal(await holding.retry(), false)
  refuse.addresses.clear()
  t.equal(await holding.retry(), true)
  t.same([...dns.open].sort(), [bad.key, good.key])
  t.same(holding.waiting(), [])
  await holding.commit([{ before: bad }], false)
  t.same([...dns.open], [good.key])
})

t.test('one that waits can be taken back, and none is opened for it later', async (t) => {
  const { refuse, dns, holding } = setUp()
  refuse.addresses.add('192.0.2.1')
  await holding.commit([{ after: listener('192.0.2.1') }], true)
  await holding.commit([{ before: listener('192.0.2.1') }], false)
  refuse.addresses.clear()
  t.same([holding.waiting(), await holding.retry(), [...dns.open], holding.size], [[], false, [], 0])
})

t.test('the digest is that of the entries, whatever the order and the way to them', async (t) => {
  const { holding } = setUp()
  const sum = openSum()
  for (const name of ['a.', 'b.']) sum.flip(zone(name))
  await holding.commit([{ after: zone('c.') }, { after: zone('b.') }], false)
  await holding.commit([{ before: zone('c.') }, { after: zone('a.') }], false)
  t.equal(await holding.digest(), sum.text())
  t.same(await holding.list('', 1), [zone('a.')])
  t.same(await holding.list(zone('a.').key, 9), [zone('b.')])
})

t.test('one that waits goes on waiting when it changes', async (t) => {
  const { refuse, dns, holding } = setUp()
  refuse.addresses.add('192.0.2.1')
  const [one, other] = [listener('192.0.2.1'), { ...listener('192.0.2.1'), port: 5353 }]
  await holding.commit([{ after: one }], true)
  await holding.commit([{ before: one, after: other }], true)
  t.match(holding.waiting(), [{ key: one.key }])
  refuse.addresses.clear()
  t.equal(await holding.retry(), true)
  t.same([...dns.open], [one.key])
})

t.test('one in the way of another may be closed by the same batch', async (t) => {
  const { refuse, holding, dns } = setUp()
  const [old, fresh] = [listener('192.0.2.1'), listener('0.0.0.0')]
  await holding.commit([{ after: old }], false)
  const { applyListeners } = dns.engine
  dns.engine.applyListeners = async (passages) => {
    if (passages.some(({ after }) => after?.key === fresh.key) && dns.open.has(old.key)) throw new Error('in use')
    return applyListeners(passages)
  }
  await holding.commit([{ after: fresh }, { before: old }], false)
  t.same([...dns.open, ...refuse.zones], [fresh.key])
})

t.test('a refusal leaves those waiting that waited', async (t) => {
  const { refuse, dns, holding } = setUp()
  refuse.addresses.add('192.0.2.1')
  const one = listener('192.0.2.1')
  await holding.commit([{ after: one }], true)
  refuse.addresses.clear()
  refuse.addresses.add('192.0.2.2')
  await t.rejects(holding.commit([{ before: one, after: one }, { after: listener('192.0.2.2') }], false), Refused)
  t.match(holding.waiting(), [{ key: one.key }])
  t.same([...dns.open], [], 'not open, as before')
  t.equal(await holding.retry(), true, 'and tried again')
  t.same([...dns.open], [one.key])
})
