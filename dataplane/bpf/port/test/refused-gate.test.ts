/** A gate that nft refuses once: what came or went on the bridge meanwhile is put in force as soon as it does not. */
import '../../../../test/inside.ts'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { arrives } from '../../../../test/frames.ts'
import { requireRoot } from '../../../../test/netns.ts'
import { KernelRefusal } from '../../../plane.ts'
import { bpffs } from '../../test/support.ts'
import { binding, net } from '../entries.ts'
import { bridged, opened, run } from './rig.ts'

requireRoot(t)

const NET = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })
const bound = (address: string, mac: string, port: string) =>
  binding('networks', { net: 1, address, mac, routed: [], port })

t.test('a named device that comes while nft refuses the gate is that of the endpoint once nft does not', async (t) => {
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  let refuses = false
  const { driver, ports, problems, close } = await opened(t, bpffs(t), () => {
    // What shuts is taken, what opens is not: then everything but that was done.
    if (refuses && ports.list().some(({ name }) => name === 'a')) throw new KernelRefusal('no memory')
  })
  t.teardown(close)
  run('link set dev a nomaster')
  await driver.observe([])
  await driver.apply(
    [NET, bound('10.0.0.1', a.tap.mac, 'a'), bound('10.0.0.2', b.tap.mac, 'b')].map((after) => ({ after })),
  )
  refuses = true
  run('link set dev a master br-work')
  await t.rejects(ports.settled(), /no memory/)
  refuses = false
  // Nobody asks: it is tried again.
  for (const signal = AbortSignal.timeout(10_000); ports.seenAt(1, a.tap.mac) !== 'a'; await wait(10))
    signal.throwIfAborted()
  t.ok(await arrives(a.tap, b.tap, {}))
  t.ok(await arrives(b.tap, a.tap, { to: a.tap.mac }))
  t.ok(problems.length > 0, 'it was told')
})
