/** Drift of links, addresses and routes in the real kernel, in a network namespace of its own. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { openKernel } from '../../../dataplane/kernel.ts'
import { address, bridge, route } from '../../../dataplane/netlink/entries.ts'
import { buildAgent } from '../../../test/build.ts'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { defineArea } from '../../area.ts'

if (requireRoot(t) && here !== undefined) run()

function run() {
  const ip = (line: string) =>
    execFileSync('ip', line.split(' '), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
  const entries = [
    bridge('plumbing', 'stbr0'),
    address('plumbing', { link: 'stbr0', address: '10.9.0.1/24' }),
    route('plumbing', { destination: '10.10.0.0/16', gateway: '10.9.0.254' }),
  ]
  const plumbing = defineArea(import.meta.url, {
    name: 'plumbing',
    prefixes: ['/plumbing'],
    netlink: { owner: 250 },
    routes() {},
    desired: { all: () => entries, one: () => entries },
  })

  t.test('persist-03 persist-04 what others take away is back within seconds, what is theirs stays', async (t) => {
    ip('link add theirs type bridge')
    ip('link set theirs up')
    ip('address add 10.8.0.1/24 dev theirs')
    ip('route add 10.11.0.0/16 via 10.8.0.9')
    ip('rule add from 10.8.0.0/24 lookup 77 priority 700')
    const theirs = () => [ip('link show theirs'), ip('-4 address show theirs'), ip('route show dev theirs'), ip('rule')]
    const before = theirs()
    const bpfDir = `/sys/fs/bpf/${here}`
    t.teardown(() => rmSync(bpfDir, { recursive: true, force: true }))
    const { agent } = await buildAgent(t, {
      only: ['node'],
      extraAreas: [plumbing],
      openPlane: (options) => openKernel({ ...options, bpfDir, responderSocket: `${bpfDir}/none` }),
    })
    const last = () => agent.outbox.bounds().latest
    /** Data of the first event of drift after the event `since`. */
    const drift = async (since: number) => {
      for (const end = Date.now() + 20_000; Date.now() < end; await wait(20)) {
        const event = agent.outbox.after(since, 100).find(({ type }) => type === 'agent.drift')
        if (event) return event.data as { repaired: boolean; found: { key: string; state: string }[] }
      }
      throw new Error('no drift was told')
    }
    const holds = (what: string) => {
      t.match(ip('-o link show stbr0'), /[<,]UP[,>]/, `${what}: the link is there`)
      t.match(ip('-o -4 address show stbr0'), / 10\.9\.0\.1\/24 /, `${what}: the address is there`)
      t.match(ip('route show 10.10.0.0/16'), /via 10\.9\.0\.254 dev stbr0/, `${what}: the route is there`)
    }
    holds('at the start')
    const meddling: [string, RegExp][] = [
      ['route del 10.10.0.0/16', /^plumbing\/route\/.* missing$/],
      ['address del 10.9.0.1/24 dev stbr0', /^plumbing\/(address|route)\/.* missing$/],
      ['link set stbr0 down', /^plumbing\/(link|route)\//],
      ['link del stbr0', /^plumbing\/(link|address|route)\/.* missing$/],
    ]
    for (const [line, found] of meddling) {
      const since = last()
      ip(line)
      const data = await drift(since)
      t.ok(data.repaired, line)
      for (const { key, state } of data.found) t.match(`${key} ${state}`, found, line)
      await agent.pipeline.exclusively(async () => holds(line))
      t.same(theirs(), before, `${line}: what is theirs is as it was`)
    }
    const since = last()
    ip('route add 10.12.0.0/16 dev stbr0 proto 250')
    t.match(
      await drift(since),
      { found: [{ key: 'plumbing/route/254/10.12.0.0/16/0', state: 'foreign' }] },
      'one under our mark',
    )
    t.equal(ip('route show 10.12.0.0/16'), '')
    t.same(agent.troubles(), [])
  })
}
