/** What is answered to whom: RFC 2131 §4.3, where every client has the one address that its MAC is bound to. */
import t from 'tap'
import { answer } from '../answer.ts'
import { openBook, type Passage } from '../book.ts'
import { OPTION, readRequest, TYPE } from '../message.ts'
import { type Asked, ask, binding, hex, ip, MAC, NOW, network, SERVER, type Told, told } from './client.ts'

const OTHER = '02:00:00:00:00:06'
const EVERYBODY = 0xffffffff
const { offer, request, decline, ack, nak, release, inform } = TYPE

/** A server; `say` returns what is answered, and notes the lease as the server does. */
function server(...passages: Passage[]) {
  const book = openBook()
  book.apply(passages.length > 0 ? passages : [{ after: network() }, { after: binding() }], NOW)
  const say = (asked: Asked = {}, { net = 1, source = '0.0.0.0', at = NOW } = {}) => {
    const read = readRequest(ask(asked))
    if (read === undefined) throw new Error('no request')
    const { what, reply, event } = answer(book, read, { net, source: ip(source) }, at)
    if (event) book.note(event)
    return { what, event, to: reply?.to, from: reply?.from, told: reply && told(reply.bytes) }
  }
  return { book, say }
}
const brief = ({ what, told }: { what: string; told: Told | undefined }) => [what, told?.type, told?.yiaddr]
const SELECTING: Asked = { type: request, wants: '10.0.0.5', server: SERVER }
const REBOOTING: Asked = { type: request, wants: '10.0.0.5' }
const RENEWING: Asked = { type: request, ciaddr: '10.0.0.5' }

t.test('dhcp-04 a bound MAC is offered and given its address, mask and gateway', async (t) => {
  const { say } = server()
  const offered = say({ xid: 99, flags: 0x8000 })
  t.same(brief(offered), ['offer', offer, '10.0.0.5'])
  t.same([offered.to, offered.from, offered.event], [EVERYBODY, ip(SERVER), undefined])
  t.match(offered.told, { xid: 99, flags: 0x8000, mac: MAC, ciaddr: '0.0.0.0' })
  const given = say({ ...SELECTING, options: [[12, Buffer.from('web-1\0')]] })
  t.same(brief(given), ['ack', ack, '10.0.0.5'])
  t.same(given.told?.options, {
    53: '05',
    54: hex(SERVER),
    51: '00000e10',
    58: '00000708',
    59: '00000c4e',
    1: hex('255.255.255.0'),
    3: hex(SERVER),
    28: hex('10.0.0.255'),
  })
  t.same(given.event, {
    ...{ net: 1, mac: MAC, address: '10.0.0.5', hostname: 'web-1', state: 'active' },
    ...{ expiresAt: NOW / 1000 + 3600, at: NOW },
  })
})

t.test('the four states in which a client requests (RFC 2131 §4.3.2)', async (t) => {
  const { say } = server()
  for (const [state, asked, to] of [
    ['SELECTING', SELECTING, EVERYBODY],
    ['INIT-REBOOT', REBOOTING, EVERYBODY],
    ['RENEWING', RENEWING, ip('10.0.0.5')],
    ['REBINDING', { ...RENEWING, flags: 0x8000 }, ip('10.0.0.5')],
  ] as const) {
    const given = say(asked)
    t.same(brief(given), ['ack', ack, '10.0.0.5'], state)
    t.equal(given.to, to, `${state}: where to`)
    const refused = say({
      ...asked,
      ...(asked.wants && { wants: '10.0.0.9' }),
      ...(asked.ciaddr && { ciaddr: '10.0.0.9' }),
    })
    t.same(brief(refused), ['nak', nak, '0.0.0.0'], `${state} with another address`)
    t.same([refused.to, refused.event], [EVERYBODY, undefined])
    t.same(Object.keys(refused.told?.options ?? {}), ['53', '54', '56'], 'a refusal tells nothing of the network')
  }
  t.same(
    brief(say({ ...SELECTING, server: '10.0.0.2' })),
    ['ignored', undefined, undefined],
    'another server is chosen',
  )
  t.same(brief(say({ type: request })), ['ignored', undefined, undefined], 'no address at all')
})

t.test('nobody else is answered', async (t) => {
  const { say } = server()
  for (const type of [TYPE.discover, request, inform, release, decline]) {
    const asked = { type, wants: '10.0.0.5', ciaddr: '10.0.0.5' }
    t.same(brief(say({ ...asked, mac: OTHER })), ['unknown', undefined, undefined], `a MAC that is not bound: ${type}`)
    t.same(
      brief(say(asked, { net: 2 })),
      ['unknown', undefined, undefined],
      `from a network that is not served: ${type}`,
    )
    t.same(brief(say({ ...asked, giaddr: '10.0.0.1' })), ['relayed', undefined, undefined], `through a relay: ${type}`)
    const agent = say({ ...asked, options: [[82, Buffer.from([1, 1, 7])]] })
    t.same(brief(agent), ['relayed', undefined, undefined], `with the mark of a relay: ${type}`)
  }
  t.same(brief(say({ type: 13 })), ['ignored', undefined, undefined], 'a type of another RFC')
  t.same(brief(say({ type: offer })), ['ignored', undefined, undefined], 'the answer of a server')
})

t.test('net-42 networks with the same addresses and MACs are told apart by where a request came from', async (t) => {
  const { say } = server(
    { after: network() },
    { after: network({ net: 2, gateway: '10.0.0.254' }) },
    { after: network({ net: 3, cidr: '10.3.0.0/24', gateway: '10.3.0.1' }) },
    { after: binding() },
    { after: binding({ net: 2, address: '10.0.0.77' }) },
    { after: binding({ net: 3, address: '10.3.0.7', mac: OTHER }) },
  )
  t.same(brief(say()), ['offer', offer, '10.0.0.5'])
  const second = say({}, { net: 2 })
  t.same(brief(second), ['offer', offer, '10.0.0.77'])
  t.equal(second.from, ip('10.0.0.254'))
  t.same(brief(say({}, { net: 3 })), ['unknown', undefined, undefined])
})

t.test('a MAC that is bound anew gets its address at once, and who had it is refused', async (t) => {
  const { book, say } = server()
  say(SELECTING)
  const [before, after] = [binding(), binding({ mac: OTHER })]
  const ended = book.apply([{ before, after }], NOW + 5)
  t.same(ended, [
    {
      ...{ net: 1, mac: MAC, address: '10.0.0.5', hostname: '', state: 'revoked' },
      ...{ expiresAt: NOW / 1000 + 3600, at: NOW + 5, unbound: true },
    },
  ])
  t.same(brief(say({ mac: OTHER })), ['offer', offer, '10.0.0.5'])
  t.same(brief(say({ ...SELECTING, mac: OTHER })), ['ack', ack, '10.0.0.5'])
  t.same(brief(say()), ['unknown', undefined, undefined], 'no offer')
  for (const asked of [RENEWING, REBOOTING, SELECTING]) t.same(brief(say(asked)), ['nak', nak, '0.0.0.0'])
  const late = { at: NOW + 3600_000 }
  t.same(brief(say(RENEWING, late)), ['unknown', undefined, undefined], 'once its lease is over it is like any other')
  book.apply([{ before: after, after: before }], NOW + 10)
  t.same(brief(say(RENEWING)), ['ack', ack, '10.0.0.5'], 'bound again')
  t.same(brief(say({ ...RENEWING, mac: OTHER })), ['nak', nak, '0.0.0.0'])
})

t.test('a MAC that moves to another address is refused the old one and offered the new', async (t) => {
  const { book, say } = server(
    { after: network() },
    { after: binding() },
    { after: binding({ address: '10.0.0.6', mac: OTHER }) },
  )
  say(SELECTING)
  book.apply(
    [
      { before: binding(), after: binding({ mac: OTHER }) },
      { before: binding({ address: '10.0.0.6', mac: OTHER }), after: binding({ address: '10.0.0.6' }) },
    ],
    NOW,
  )
  t.same(brief(say(RENEWING)), ['nak', nak, '0.0.0.0'])
  t.same(brief(say()), ['offer', offer, '10.0.0.6'])
  t.same(brief(say({ mac: OTHER })), ['offer', offer, '10.0.0.5'], 'two MACs change places in one step')
})

t.test('dhcp-06 a lease that was ended early is not renewed, but granted anew', async (t) => {
  const { book, say } = server()
  say(SELECTING)
  const ended = binding({ endedAt: NOW + 1000 })
  t.same(book.apply([{ before: binding(), after: ended }], NOW + 1000), [], 'the binding is the same')
  for (const asked of [RENEWING, REBOOTING]) t.same(brief(say(asked, { at: NOW + 2000 })), ['nak', nak, '0.0.0.0'])
  t.same(brief(say({}, { at: NOW + 2000 })), ['offer', offer, '10.0.0.5'])
  t.same(brief(say(SELECTING, { at: NOW + 2000 })), ['ack', ack, '10.0.0.5'])
  t.same(brief(say(RENEWING, { at: NOW + 3000 })), ['ack', ack, '10.0.0.5'], 'the new one is renewed')
  const fresh = server({ after: network() }, { after: ended })
  t.same(
    brief(fresh.say(RENEWING, { at: NOW + 4000 })),
    ['nak', nak, '0.0.0.0'],
    'also by a server that was started anew',
  )
})

t.test('RELEASE counts from the address itself only, DECLINE ends nothing', async (t) => {
  const { say } = server()
  say(SELECTING)
  const giving: Asked = { type: release, ciaddr: '10.0.0.5', server: SERVER }
  t.equal(say(giving, { source: '10.0.0.9' }).what, 'ignored', 'said by another')
  t.equal(say({ ...giving, ciaddr: '10.0.0.9' }, { source: '10.0.0.9' }).what, 'ignored', 'of another')
  t.equal(say({ ...giving, server: '10.0.0.2' }, { source: '10.0.0.5' }).what, 'ignored', 'to another')
  const given = say(giving, { source: '10.0.0.5', at: NOW + 60_000 })
  t.match(given, { what: 'release', told: undefined, event: { state: 'revoked', expiresAt: NOW / 1000 + 60 } })
  t.same(brief(say(SELECTING)), ['ack', ack, '10.0.0.5'], 'and granted again')
  const declining: Asked = { type: decline, wants: '10.0.0.5', server: SERVER }
  t.equal(say({ ...declining, server: '10.0.0.2' }).what, 'ignored')
  t.match(say(declining), { what: 'decline', told: undefined, event: undefined })
})

t.test('INFORM is answered to the address itself, without a lease', async (t) => {
  const { say } = server()
  const { what, to, event, told } = say({ type: inform, ciaddr: '10.0.0.5' })
  t.same([what, to, event], ['inform', ip('10.0.0.5'), undefined])
  t.match(told, { type: ack, yiaddr: '0.0.0.0', ciaddr: '10.0.0.5' })
  t.same(told?.order, [53, 54, 1, 3, 28])
  t.equal(say({ type: inform, ciaddr: '10.0.0.6' }).what, 'ignored', 'nobody is made to be answered elsewhere')
})

t.test('a client is told what it asks for, in its order, as far as it fits', async (t) => {
  const all = network({ dns: ['9.9.9.9', '1.1.1.1'], domain: 'example.org', mtu: 1400 })
  const { say } = server({ after: all }, { after: binding({ hostname: 'web1' }) })
  const order = (asked: Asked) => say(asked).told?.order.slice(5)
  const list = (...codes: number[]): Asked => ({ options: [[OPTION.parameterList, Buffer.from(codes)]] })
  t.same(order({}), [1, 3, 6, 12, 15, 26, 28], 'everything without a list')
  t.same(order(list(15, 3, 6)), [15, 3, 6])
  t.same(
    order(list(3, 15, 1, 99, 51, 53)),
    [1, 3, 15],
    'the mask before the router, nothing that is not there or there already',
  )
  const { told } = say()
  t.match(told?.options, { 6: `${hex('9.9.9.9')}${hex('1.1.1.1')}`, 26: '0578' })
  t.equal(Buffer.from(told?.options[15] ?? '', 'hex').toString(), 'example.org')
  t.equal(Buffer.from(told?.options[12] ?? '', 'hex').toString(), 'web1')
  t.equal(say(SELECTING).event?.hostname, 'web1', 'the name that it has here, as it says none')

  const id = Buffer.alloc(255, 7)
  const long = server({ after: network({ domain: `${'a'.repeat(60)}.org`, dns: ['9.9.9.9'] }) }, { after: binding() })
  const small = long.say({ options: [[61, id]] })
  t.equal(small.told?.options[61], id.toString('hex'), 'the client identifier comes back (RFC 6842)')
  t.ok((small.told?.length ?? 0) <= 548, 'a datagram that every client takes')
  t.same(small.told?.order.slice(6), [1, 3, 6], 'what does not fit is left out')
  const large = long.say({
    options: [
      [61, id],
      [57, Buffer.from([5, 220])],
    ],
  })
  t.same(large.told?.order.slice(6), [1, 3, 6, 15, 28], 'a client that takes more is told more (RFC 2132 §9.10)')
  t.equal(long.say(list(1)).told?.length, 300, 'and nothing is shorter than BOOTP')
})

t.test('a name that is none is not taken over', async (t) => {
  const { say } = server()
  let at = NOW
  const named = (name: string) => {
    at += 1000
    return say({ ...SELECTING, options: [[12, Buffer.from(name, 'latin1')]] }, { at }).event?.hostname
  }
  for (const name of ['-a', 'a b', 'a..b', 'é', '<script>', 'a'.repeat(64), 'x\u0000y', '']) {
    t.equal(named(name), '', JSON.stringify(name))
  }
  t.equal(named('Web-1.example'), 'Web-1.example')
})

t.test('a request that is repeated at once is answered and told once', async (t) => {
  const { say } = server()
  t.ok(say(SELECTING).event)
  const again = say(SELECTING)
  t.same([again.what, again.event], ['ack', undefined])
  t.ok(say(SELECTING, { at: NOW + 1000 }).event)
})

t.test('of two events of an address the newer is known by its time, also when the clock goes back', async (t) => {
  const { book, say } = server()
  const { event } = say(SELECTING)
  const later = event && [book.note(event), book.note({ ...event, at: NOW - 60_000 })]
  t.same(
    later?.map(({ at }) => at),
    [NOW + 1, NOW + 2],
  )
})

t.test('what cannot be read is refused as a whole', async (t) => {
  const book = openBook()
  const bad = [
    network({ cidr: '10.0.0.1/24' }),
    network({ dns: ['x'] }),
    network({ gateway: '' }),
    binding({ address: '10.0.0' }),
  ]
  for (const entry of bad)
    t.throws(() => book.apply([{ after: network() }, { after: entry }], NOW), /is no (address|network)/)
  t.same(book.size(), { networks: 0, bindings: 0, leases: 0 })
})

/** CROWD: how many; the long run takes 20,000. */
t.test('of many MACs each has its own address, and nobody else any', async (t) => {
  const count = Number(process.env.CROWD ?? 2000)
  const mac = (n: number) => `02:ce:0a:${n.toString(16).padStart(6, '0').match(/../g)?.join(':')}`
  const address = (n: number) => `10.1.${(n + 2) >> 8}.${(n + 2) & 255}`
  const bound = Array.from({ length: count }, (_, n) => ({ after: binding({ address: address(n), mac: mac(2 * n) }) }))
  const { book, say } = server({ after: network({ cidr: '10.1.0.0/16', gateway: '10.1.0.1' }) }, ...bound)
  const seen = new Map<string, number>()
  for (let n = 0; n < count * 2; n++) {
    const { what, told } = say({ mac: mac(n) })
    if (n % 2 === 1) t.equal(what, 'unknown')
    else if (told?.yiaddr !== address(n / 2)) t.fail(`${mac(n)}: ${told?.yiaddr}`)
    if (told) seen.set(told.yiaddr, (seen.get(told.yiaddr) ?? 0) + 1)
    if (told) say({ type: request, mac: mac(n), wants: told.yiaddr, server: '10.1.0.1' })
  }
  t.equal(seen.size, count, 'every address')
  t.ok(
    [...seen.values()].every((times) => times === 1),
    'none twice',
  )
  t.equal(book.size().leases, count)
  book.forget(NOW + 3 * 3_600_000)
  t.equal(book.size().leases, 0, 'and all is forgotten in the end')
})
