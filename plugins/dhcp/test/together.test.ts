/** The area and the server that it tells what to know, from a call to the answer that a client gets. */
import t from 'tap'
import type { Passage } from '../../../dataplane/entry.ts'
import { reversed } from '../../../dataplane/entry.ts'
import { answer } from '../../../responder/dhcp/answer.ts'
import { openBook, type Passage as Told } from '../../../responder/dhcp/book.ts'
import { readRequest, TYPE } from '../../../responder/dhcp/message.ts'
import { type Asked, ask, ip, told } from '../../../responder/dhcp/test/client.ts'
import type { Scope } from '../../../test/netns.ts'
import { dhcpArea, MAC, OTHER, P, START } from './area.ts'

const isTold = ({ before, after }: Passage): boolean => /^dhcp_/.test((after ?? before)?.kind ?? '')

/** What the driver does, without a process between. */
async function together(t: Scope) {
  const area = await dhcpArea(t)
  const book = openBook()
  const storing: Promise<void>[] = []
  const tell = (diff: readonly Passage[]) => {
    // isTold has chosen the kinds that the book takes.
    for (const event of book.apply(diff.filter(isTold) as Told[], area.clock.now)) storing.push(area.plane.tell(event))
  }
  const { apply } = area.plane
  const later: { refuse?: Error | undefined } = {}
  area.plane.apply = async (diff, mode) => {
    const undo = await apply(diff, mode)
    tell(diff)
    const back = async () => {
      tell(reversed(diff))
      await undo()
    }
    if (later.refuse === undefined) return back
    await back()
    throw later.refuse
  }
  const say = async (asked: Asked, source = '0.0.0.0') => {
    area.clock.now += 1000
    const request = readRequest(ask(asked))
    if (request === undefined) throw new Error('no request')
    const { what, reply, event } = answer(book, request, { net: 1, source: ip(source) }, area.clock.now)
    if (event) await area.hear(book.note(event))
    return reply ? `${what} ${told(reply.bytes).yiaddr}` : what
  }
  const states = async () => {
    await Promise.all(storing)
    return (await area.leases()).map(({ mac, state }) => `${mac} ${state}`)
  }
  return { ...area, say, later, states }
}

const selecting = (mac: string): Asked => ({ type: TYPE.request, mac, wants: '10.0.0.5', server: '10.0.0.1' })
const renewing = (mac: string): Asked => ({ type: TYPE.request, mac, ciaddr: '10.0.0.5' })

t.test(
  'state-12 dhcp-04 dhcp-06 from the attach to the lease, through a change of MAC, a release and a detach',
  async (t) => {
    const area = await together(t)
    const network = await area.create()
    t.equal(await area.say({ mac: MAC }), 'unknown')
    const endpoint = await area.attach(network, '10.0.0.5')
    t.equal(await area.say({ mac: MAC }), 'offer 10.0.0.5')
    t.same(await area.states(), [], 'an offer is no lease')
    t.equal(await area.say(selecting(MAC)), 'ack 10.0.0.5')
    t.same(await area.states(), [`${MAC} active`])

    await area.ok('PUT', `${P}/networks/${network}/endpoints/${endpoint}/mac`, { mac: OTHER })
    t.same([await area.say({ mac: MAC }), await area.say(renewing(MAC))], ['unknown', 'nak 0.0.0.0'])
    t.equal(await area.say(selecting(OTHER)), 'ack 10.0.0.5')
    t.same(await area.states(), [`${MAC} revoked`, `${OTHER} active`])

    t.match(await area.ctl('dhcp release n1 10.0.0.5'), { code: 0 })
    t.same(await area.states(), [`${MAC} revoked`, `${OTHER} revoked`])
    t.equal(await area.say(renewing(OTHER)), 'nak 0.0.0.0', 'the server refuses to renew (D52)')
    t.same([await area.say({ mac: OTHER }), await area.say(selecting(OTHER))], ['offer 10.0.0.5', 'ack 10.0.0.5'])
    t.equal(await area.say(renewing(OTHER)), 'ack 10.0.0.5')
    t.same(await area.states(), [`${MAC} revoked`, `${OTHER} active`])

    t.equal(await area.say({ type: TYPE.release, mac: OTHER, ciaddr: '10.0.0.5' }, '10.0.0.5'), 'release')
    t.same(await area.states(), [`${MAC} revoked`, `${OTHER} revoked`])
    t.equal(await area.say(selecting(OTHER)), 'ack 10.0.0.5')
    await area.detach(network, endpoint)
    t.same([await area.say({ mac: OTHER }), await area.say(renewing(OTHER))], ['unknown', 'nak 0.0.0.0'])
    t.same(await area.states(), [`${MAC} revoked`, `${OTHER} revoked`])
  },
)

t.test('net-46 net-49 without the option nobody is answered, and leases run out', async (t) => {
  const area = await together(t)
  const network = await area.create()
  await area.attach(network, '10.0.0.5')
  await area.say(selecting(MAC))
  await area.ok('PUT', `${P}/networks/${network}/host-gateway`, {})
  t.equal(await area.say({ mac: MAC }), 'unknown')
  t.same(await area.states(), [`${MAC} active`])
  area.clock.now = START + 3_700_000
  t.same(await area.states(), [`${MAC} expired`])
})

t.test('a detach that fails late is undone in the server too, and ends no lease', async (t) => {
  const area = await together(t)
  const network = await area.create()
  const endpoint = await area.attach(network, '10.0.0.5')
  await area.say(selecting(MAC))
  area.later.refuse = new Error('made up')
  const answer = await area.call('POST', `${P}/networks/${network}/endpoints/${endpoint}/detach`)
  area.later.refuse = undefined
  t.equal(answer.status, 500)
  t.equal(await area.say(renewing(MAC)), 'ack 10.0.0.5')
  t.same(await area.states(), [`${MAC} active`])
  t.same(area.events(), ['lease.created'])
})
