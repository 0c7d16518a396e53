/** A port that leaves br-work and comes back, as at a restart of who plugs it: a guest that never speaks first is found again. */
import '../../../../test/inside.ts'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { frame } from '../../../../test/frames.ts'
import { requireRoot } from '../../../../test/netns.ts'
import { bpffs } from '../../test/support.ts'
import { binding, net } from '../entries.ts'
import { bridged, opened, run } from './rig.ts'

requireRoot(t)

const NET = net('networks', { net: 1, cidr: '10.0.0.0/24', hostGateway: false })

t.test('a silent guest whose port was taken out of br-work and put back is in its network again', async (t) => {
  const { a, b } = bridged(t, ['a', 'b'])
  if (!a || !b) throw new Error('no guests')
  for (const { ns } of [a, b]) ns.run('sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1')
  a.ns.run('ip', 'address', 'add', '10.0.0.1/24', 'dev', 'eth0')
  const { driver, ports, close } = await opened(t, bpffs(t))
  t.teardown(close)
  const bound = [a, b].map(({ tap }, n) =>
    binding('networks', { net: 1, address: `10.0.0.${n + 1}`, mac: tap.mac, routed: [] }),
  )
  await driver.observe([])
  await driver.apply([NET, ...bound].map((after) => ({ after })))
  const isIn = async (number: number | undefined) => {
    for (const signal = AbortSignal.timeout(10_000); ; await wait(10)) {
      signal.throwIfAborted()
      if (ports.list().find(({ name }) => name === 'a')?.net === number) return
    }
  }
  a.tap.send(frame({ from: a.tap.mac }, Buffer.alloc(46)))
  await isIn(1)
  run('link set dev a nomaster')
  await isIn(undefined)
  run('link set dev a master br-work')
  await isIn(1)
  t.pass('though it has said nothing before it was asked')
})
