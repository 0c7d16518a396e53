/** How many may come in by TCP: in all, from one address, from a /64, from those that are not allowed. */
import { EventEmitter, once } from 'node:events'
import { createServer, type Server } from 'node:net'
import tls from 'node:tls'
import t from 'tap'
import { type BuildAgentOptions, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { guardDoor } from '../door.ts'
import { rig, serveEvents, serveHealth } from '../stream/test/rig.ts'

/** The part of a connection that the door sees. */
class Caller extends EventEmitter {
  readonly remoteAddress: string
  ended = false

  constructor(remoteAddress: string) {
    super()
    this.remoteAddress = remoteAddress
  }

  resetAndDestroy(): void {
    this.ended = true
    this.emit('close')
  }
}

async function guarded(scope: Scope, options: BuildAgentOptions = {}) {
  const built = await buildArea(scope, 'firewall', options)
  const served: Caller[] = []
  const server: Server = createServer()
  server.on('connection', (caller: unknown) => void served.push(caller as Caller))
  guardDoor(server, built.agent)
  const come = (from: string) => {
    const caller = new Caller(from)
    server.emit('connection', caller)
    return caller
  }
  return {
    ...built,
    served,
    come,
    /** How many of `count` are let in. */
    admitted: (from: string, count: number) =>
      Array.from({ length: count }, () => come(from)).filter(({ ended }) => !ended),
    async set(key: string, value: string) {
      built.agent.overrides.change((content) => {
        content.config[key] = value
      })
      await built.agent.config.reload()
    },
  }
}

t.test('an address has 256 connections, and whoever leaves makes room', async (t) => {
  const { admitted, served } = await guarded(t)
  const first = admitted('192.0.2.1', 300)
  t.equal(first.length, 256)
  t.equal(served.length, 256, 'what is refused is seen by nobody')
  t.equal(admitted('192.0.2.2', 10).length, 10, 'another address is not affected')
  first[0]?.emit('close')
  t.equal(admitted('192.0.2.1', 10).length, 1)
  t.equal(first.filter(({ ended }) => ended).length, 0)
})

t.test(
  'when all places are taken, strangers give theirs up to who comes, and 64 are kept for known callers',
  async (t) => {
    const { admitted, come, served, agent } = await guarded(t)
    for (let n = 0; n < 20; n++) admitted(`198.51.100.${n}`, 256)
    const open = () => served.filter(({ ended }) => !ended).length
    t.equal(open(), 4096 - 64)
    t.notOk(come('203.0.113.1').ended, 'a newcomer comes in')
    t.equal(open(), 4096 - 64, 'instead of another')
    t.same(
      served.map(({ ended }) => ended).indexOf(false),
      20 * 256 - 4032 + 1,
      'of the one that has been open longest',
    )
    agent.gates.heard('192.0.2.9', 'operator')
    agent.gates.heard('192.0.2.10', 'tenant')
    const kept = [...admitted('192.0.2.9', 40), ...admitted('127.0.0.1', 40), ...admitted('::1', 4)]
    t.equal(kept.length, 84)
    t.equal(open(), 4096, 'strangers have made room for 20 of them')
    const tenant = admitted('192.0.2.10', 10)
    for (let n = 20; n < 60; n++) admitted(`198.51.100.${n}`, 256)
    t.equal([...kept, ...tenant].filter(({ ended }) => ended).length, 0, 'no stranger takes the place of who is known')
  },
)

t.test('whoever shows a credential on a connection that stands keeps it', async (t) => {
  const { admitted, agent, served } = await guarded(t, { config: { max_connections: '16' } })
  const [one] = admitted('192.0.2.1', 1)
  admitted('192.0.2.2', 11)
  agent.gates.heard('192.0.2.1', 'token')
  admitted('192.0.2.3', 30)
  t.notOk(one?.ended)
  t.equal(served.filter(({ ended }) => !ended).length, 13, 'the bound, less a quarter, and the one who is known')
})

t.test('an IPv6 site has four times what a /64 has; the oldest of it makes room', async (t) => {
  const { admitted, served } = await guarded(t, { config: { max_connections_per_ip: '4' } })
  for (let n = 0; n < 16; n++) admitted(`2001:db8:7:${n.toString(16)}::1`, 4)
  t.equal(served.filter(({ ended }) => !ended).length, 16)
  t.equal(
    served.findIndex(({ ended }) => !ended),
    48,
    'those that came last',
  )
  t.equal(admitted('2001:db8:8::1', 4).length, 4, 'another site is not affected')
})

t.test('an IPv6 address counts as its /64, a mapped one as IPv4', async (t) => {
  const { admitted } = await guarded(t, { config: { max_connections_per_ip: '4' } })
  t.equal(admitted('2001:db8:0:1::1', 2).length, 2)
  t.equal(admitted('2001:db8:0:1:ffff::2', 5).length, 2)
  t.equal(admitted('2001:db8:0:2::1', 5).length, 4)
  t.equal(admitted('192.0.2.1', 3).length, 3)
  t.equal(admitted('::ffff:192.0.2.1', 3).length, 1)
})

t.test('all who are not on the allow-list share what one address has', async (t) => {
  const config = { max_connections_per_ip: '4', api_allowed_ips: '192.0.2.0/24' }
  const { admitted } = await guarded(t, { config })
  for (let n = 0; n < 4; n++) t.equal(admitted(`198.51.100.${n}`, 1).length, 1)
  t.equal(admitted('203.0.113.1', 1).length, 0)
  t.equal(admitted('2001:db8::1', 1).length, 0)
  t.equal(admitted('192.0.2.1', 9).length, 4)
  t.equal(admitted('192.0.2.2', 9).length, 4)
})

t.test('the bounds take effect at once, and the log says once a minute why somebody is kept out', async (t) => {
  const { admitted, set, logged } = await guarded(t)
  t.equal(admitted('192.0.2.1', 20).length, 20)
  await set('max_connections_per_ip', '20')
  t.equal(admitted('192.0.2.1', 20).length, 0)
  await set('max_connections_per_ip', '30')
  t.equal(admitted('192.0.2.1', 20).length, 10)
  await set('max_connections', '36')
  t.equal(admitted('192.0.2.9', 20).length, 20, 'each instead of an older one')
  const told = logged.filter(({ msg }) => String(msg).startsWith('connections are refused'))
  t.match(told, [{ level: 40, setting: 'max_connections_per_ip', from: '192.0.2.1', open: 20 }])
  t.equal(told.length, 1)
})

t.test('7071 and 7072 refuse before TLS, and serve again once there is room', async (t) => {
  const node = await rig(t, { config: { max_connections_per_ip: '2' } })
  for (const { where } of [await serveHealth(t, node), await serveEvents(t, node)]) {
    const [host = '', port = ''] = where.split(':')
    const open = () =>
      tls.connect({ host, port: Number(port), rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] })
    const [one, two] = [open(), open()]
    await Promise.all([once(one, 'secureConnect'), once(two, 'secureConnect')])
    const three = open()
    await t.rejects(once(three, 'secureConnect'), { code: 'ECONNRESET' })
    one.destroy()
    two.destroy()
    // The server learns of the end when it reads it.
    for (;;) {
      const again = open()
      const came = await once(again, 'secureConnect').then(
        () => true,
        () => false,
      )
      again.destroy()
      if (came) break
    }
  }
})
