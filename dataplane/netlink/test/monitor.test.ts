import { EventEmitter, once } from 'node:events'
import t from 'tap'
import { type Netns, netns, requireRoot, type Scope } from '../../../test/netns.ts'
import { inNamespace } from '../../libc.ts'
import { decodeAddress, RTM_NEWADDR } from '../address.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import {
  createBridge,
  createVeth,
  decodeLink,
  deleteLink,
  getLink,
  RTM_DELLINK,
  RTM_NEWLINK,
  setLink,
} from '../link.ts'
import { type MonitorOptions, openMonitor, RTNLGRP_IPV4_IFADDR, RTNLGRP_LINK } from '../monitor.ts'
import type { Received } from '../wire.ts'
import { netlinkIn } from './open.ts'

requireRoot(t)

/** Waits for something a monitor says, however many other notifications come before. */
class Heard {
  readonly #events = new EventEmitter()
  readonly #seen: string[] = []
  overflows = 0

  say(fact: string): void {
    this.#seen.push(fact)
    this.#events.emit('fact')
  }

  async until(pattern: RegExp): Promise<void> {
    const signal = AbortSignal.timeout(20_000)
    while (!this.#seen.some((fact) => pattern.test(fact))) await once(this.#events, 'fact', { signal })
  }
}

function describe({ type, payload }: Received): string {
  if (type === RTM_NEWLINK || type === RTM_DELLINK) {
    const { name, up, running } = decodeLink(payload)
    return `${type === RTM_NEWLINK ? 'new' : 'del'} ${name}${up ? ' up' : ''}${running ? ' running' : ''}`
  }
  return `${type === RTM_NEWADDR ? 'address' : 'other'} ${decodeAddress(payload)?.cidr}`
}

function monitorIn(t: Scope, ns: Netns, options: Partial<MonitorOptions> = {}) {
  const heard = new Heard()
  const monitor = inNamespace(ns.path, () =>
    openMonitor({
      protocol: NETLINK_ROUTE,
      groups: [RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR],
      onMessage: (message) => heard.say(describe(message)),
      onOverflow: () => {
        heard.overflows++
        heard.say('overflow')
      },
      onError: (error) => heard.say(`error ${error}`),
      ...options,
    }),
  )
  t.teardown(() => monitor.close())
  return { heard, monitor }
}

t.test('changes made by anybody are heard', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  const { heard } = monitorIn(t, ns)
  await netlink.command(createVeth({ name: 'sta', up: true }, { name: 'stb' }))
  await heard.until(/^new sta/)
  await netlink.command(setLink('stb', { up: true }))
  await heard.until(/^new sta up running$/)
  ns.run('ip', 'address', 'add', '10.0.0.1/24', 'dev', 'sta')
  await heard.until(/^address 10\.0\.0\.1\/24$/)
  await netlink.command(deleteLink('sta'))
  await heard.until(/^del stb/)
  t.equal(heard.overflows, 0)
})

t.test('an overflow is signalled, and later changes are heard again', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  await netlink.command(createBridge({ name: 'br1' }))
  const { heard } = monitorIn(t, ns, { receiveBuffer: 16 << 10 })
  const leaving = monitorIn(t, ns, {
    receiveBuffer: 16 << 10,
    onMessage: () => leaving.monitor.close(),
    onOverflow: () => t.ok(false, 'closed before the overflow could be told'),
  })
  // Synchronous: nothing can be read while several hundred notifications arrive.
  ns.run('sh', '-c', "seq 1000 1400 | sed 's/.*/link set br1 mtu &/' | ip -batch -")
  await heard.until(/^overflow$/)
  await netlink.command(createBridge({ name: 'br2' }))
  await heard.until(/^new br2/)
  t.ok(heard.overflows >= 1)
  t.equal((await getLink(netlink, 'br1'))?.mtu, 1400, 'a dump tells what was missed')
})

t.test('a burst is heard whole when the buffer holds it', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  await netlink.command(createBridge({ name: 'br1' }))
  const mtus: number[] = []
  const done = new EventEmitter()
  const { heard } = monitorIn(t, ns, {
    onMessage: ({ payload }) => {
      mtus.push(decodeLink(payload).mtu)
      if (mtus.at(-1) === 1900) done.emit('last')
    },
  })
  const last = once(done, 'last', { signal: AbortSignal.timeout(20_000) })
  // More than one turn of the event loop may read at once.
  ns.run('sh', '-c', "seq 1001 1900 | sed 's/.*/link set br1 mtu &/' | ip -batch -")
  await last
  t.same([...new Set(mtus.filter((mtu) => mtu > 1000 && mtu !== 1500))].length, 899)
  t.equal(heard.overflows, 0)
})

t.test('after close nothing is heard, and closing again does nothing', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  const witness = monitorIn(t, ns)
  const heard: string[] = []
  const { monitor } = monitorIn(t, ns, { onMessage: (message) => heard.push(describe(message)) })
  monitor.close()
  monitor.close()
  await netlink.command(createBridge({ name: 'br1' }))
  await witness.heard.until(/^new br1/)
  t.same(heard, [])
})

t.test('a monitor may close itself while it is told something', async (t) => {
  const ns = netns(t)
  const netlink = netlinkIn(t, ns, NETLINK_ROUTE)
  const witness = monitorIn(t, ns)
  const calls: string[] = []
  const { heard, monitor } = monitorIn(t, ns, {
    onMessage: (message) => {
      calls.push(describe(message))
      heard.say('called')
      monitor.close()
    },
  })
  await netlink.request([createBridge({ name: 'br1' }), createBridge({ name: 'br2' })])
  await heard.until(/called/)
  await witness.heard.until(/^new br2/)
  t.match(calls, [/^new br1/])
  t.equal(calls.length, 1)
})

t.test('a group that does not exist is refused', async (t) => {
  const options = { protocol: NETLINK_ROUTE, onMessage: () => {}, onOverflow: () => {}, onError: () => {} }
  t.throws(() => openMonitor({ ...options, groups: [100_000] }), { name: 'KernelError', code: 'EINVAL' })
})
