/**
 * Promise 2: the agent is killed at random moments of a loop of rule changes. After each start the kernel equals the
 * store, every acknowledged change is there, and traffic that an accept rule admits under default deny loses no packet.
 * KILLS sets how often (short by default; `npm run test:kill` does 200), SEED makes a run repeatable.
 */
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import t from 'tap'
import { startAgent } from './agent.ts'
import { type Netns, netns, requireRoot, veth } from './netns.ts'
import { SEED } from './seed.ts'

const KILLS = Number(process.env.KILLS ?? 8)

/** Small, seedable, good enough to pick moments (Steele & Vigna's splitmix32). */
function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32
  }
}

/**
 * Answers every datagram, and counts on the other side those that stayed without an answer. The buffers are large: what these
 * programs do not read in time while they wait for the processor is no loss of the node's.
 */
const ECHO = `const s = require('node:dgram').createSocket({ type: 'udp4', recvBufferSize: 1 << 20 }); s.on('message', (m, r) => s.send(m, r.port, r.address));
s.bind(9000, '10.77.2.2', () => console.log('listening'))`
const PROBE = `const s = require('node:dgram').createSocket({ type: 'udp4', recvBufferSize: 1 << 20 }); let sent = 0, open = new Set(), lost = 0
s.on('message', (m) => open.delete(Number(m)))
s.bind(9001, '10.77.1.2', () => { console.log('probing'); setInterval(() => { open.add(sent); s.send(String(sent++), 9000, '10.77.2.2') }, 2) })
process.on('SIGUSR2', () => { const asked = [...open], until = Date.now() + 10_000
  const clock = setInterval(() => { if (asked.some((n) => open.has(n)) && Date.now() < until) return
    clearInterval(clock); for (const n of asked) if (open.delete(n)) lost++
    console.log(JSON.stringify({ sent, lost })) }, 20) })`

async function line(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('no stdout')
  for await (const text of createInterface({ input: child.stdout })) return text
  throw new Error('ended without a word')
}

t.test(
  'persist-02 enable-27 no kill loses an acknowledged rule or a packet',
  { timeout: 60_000 + KILLS * 4000 },
  async (t) => {
    if (!requireRoot(t)) return
    t.comment(`KILLS=${KILLS} SEED=${SEED}`)
    const pick = random(SEED)
    const [router, client, server] = [netns(t, 'r'), netns(t, 'c'), netns(t, 's')]
    veth(t, { ns: client, name: 'eth0', addr: '10.77.1.2/24' }, { ns: router, name: 'left', addr: '10.77.1.1/24' })
    veth(t, { ns: server, name: 'eth0', addr: '10.77.2.2/24' }, { ns: router, name: 'right', addr: '10.77.2.1/24' })
    router.run('sysctl', '-qw', 'net.ipv4.ip_forward=1')
    client.run('ip', 'route', 'add', 'default', 'via', '10.77.1.1')
    server.run('ip', 'route', 'add', 'default', 'via', '10.77.2.1')
    const agent = await startAgent(t, { ns: router })
    await agent.call('POST', '/api/v1/rules', {
      action: 'accept',
      protocol: 'udp',
      dest_ip: '10.77.2.2',
      dest_port: 9000,
    })
    await agent.call('PUT', '/api/v1/rules/default', { default_action: 'deny' })

    const echo = server.spawn(process.execPath, ['-e', ECHO])
    t.equal(await line(echo), 'listening')
    const probe = client.spawn(process.execPath, ['-e', PROBE])
    t.equal(await line(probe), 'probing')

    const acknowledged = new Map<number, boolean>([[1, true]])
    for (let kill = 0; kill < KILLS; kill++) {
      const unanswered = await changesUntilKilled(agent, acknowledged, pick)
      await agent.restart()
      const { body } = await agent.call('GET', '/api/v1/rules')
      const stored = (body.rules as { id: number }[]).map(({ id }) => id)
      for (const [id, present] of acknowledged) {
        if (unanswered.has(id)) acknowledged.set(id, stored.includes(id))
        else if (stored.includes(id) !== present) t.fail(`rule ${id} should be ${present ? 'present' : 'gone'}`)
      }
      // A creation whose answer was lost may be there: it is complete then, like any other.
      for (const id of stored) acknowledged.set(id, true)
      const kernel = await inKernel(agent, router)
      t.same(
        kernel.sort((a, b) => a - b),
        stored.sort((a, b) => a - b),
        `the kernel equals the store after kill ${kill + 1}`,
      )
    }
    const report = line(probe)
    probe.kill('SIGUSR2')
    const { sent, lost } = JSON.parse(await report) as { sent: number; lost: number }
    t.ok(sent > KILLS * 50, `${sent} packets were sent all the while`)
    t.equal(lost, 0, 'no packet was lost')
  },
)

type Agent = Awaited<ReturnType<typeof startAgent>>

/** Ids of the rules in the kernel: those that the classifier counts for, else those in nft. */
async function inKernel(agent: Agent, router: Netns): Promise<number[]> {
  const { status, body } = await agent.call('GET', '/control/v1/firewall/rules?counters=true')
  if (status === 200) {
    const rules = body.rules as { id: number; packets?: number }[]
    return rules.filter(({ packets }) => packets !== undefined).map(({ id }) => id)
  }
  const listing = router.run('nft', 'list', 'table', 'inet', 'stratum')
  return Array.from(listing.matchAll(/"firewall\/(\d+) /g), ([, id]) => Number(id))
}

/** Creates and deletes rules until the agent is killed in the middle; returns the ids whose fate was not answered. */
async function changesUntilKilled(
  agent: Agent,
  acknowledged: Map<number, boolean>,
  pick: () => number,
): Promise<Set<number>> {
  const unanswered = new Set<number>()
  const gone = new Promise<void>((resolve) => void agent.child.once('exit', () => resolve()))
  setTimeout(() => agent.child.kill('SIGKILL'), 20 + pick() * 180)
  for (;;) {
    const present = [...acknowledged].filter(([id, is]) => is && id !== 1).map(([id]) => id)
    const victim = pick() < 0.4 ? present[Math.floor(pick() * present.length)] : undefined
    try {
      if (victim === undefined) {
        const rule = {
          action: pick() < 0.5 ? 'drop' : 'accept',
          source_ip: `192.0.2.${Math.floor(pick() * 256)}`,
          priority: Math.floor(pick() * 50),
        }
        const { status, body } = await agent.call('POST', '/api/v1/rules', rule)
        if (status === 201) acknowledged.set((body.rule as { id: number }).id, true)
      } else {
        unanswered.add(victim)
        const { status } = await agent.call('DELETE', `/api/v1/rules/${victim}`)
        if (status === 200) acknowledged.set(victim, false)
        unanswered.delete(victim)
      }
    } catch {
      // The agent is gone, which is the point.
      await gone
      return unanswered
    }
  }
}
