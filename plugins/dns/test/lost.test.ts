/** A responder that is killed, once and again and again: what becomes of changes, and what is told of it. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Told } from '../../../core/cli/doctor/agent.ts'
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { netns, requireRoot, type Scope } from '../../../test/netns.ts'
import { DNS } from './area.ts'

requireRoot(t)

const MAC = '02:00:00:00:00:05'
const RESERVATIONS = '/control/v1/dhcp/reservations'
/** What a ping takes of a queue is far below, what a change takes is above. */
const A_CHANGE = 100

/** Calls `look` until it gives something; after a minute it fails. */
async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (const since = performance.now(); performance.now() - since < 60_000; await delay(10)) {
    const found = await look()
    if (found !== undefined) return found
  }
  throw new Error(`not within a minute: ${what}`)
}

/** Processes of which an argument is `path`. */
const processesOf = (path: string): number[] =>
  readdirSync('/proc').flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(path)
        ? [Number(pid)]
        : []
    } catch {
      return []
    }
  })

function killed(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
}

async function site(t: Scope) {
  const ns = netns(t, 'node')
  const agent = await startAgent(t, { ns, config: { dns_listen: '127.0.0.1' } })
  const socket = join(agent.runDir, 'responder.sock')
  const zone = await agent.call('POST', `${DNS}/zones`, { name: 'example.org' })
  const network = await agent.call('POST', '/api/v1/networks', {
    ...{ name: 'n1', cidr: '10.0.0.0/24', gateway: '10.0.0.1', dhcp: true },
  })
  if (zone.status !== 201 || network.status !== 201) throw new Error(`${zone.text} ${network.text}`)
  return {
    agent,
    socket,
    pids: () => processesOf(socket),
    reserve: () => agent.call('POST', RESERVATIONS, { network: 'n1', mac: MAC, ip: '10.0.0.5' }),
    reserved: async () => ((await agent.call('GET', RESERVATIONS)).body.reservations as unknown[]).length,
    record: (name: string) =>
      agent.call('POST', `${DNS}/records`, { zone_id: 1, name, type: 'A', value: '192.0.2.80' }),
    recorded: async () => ((await agent.call('GET', `${DNS}/records`)).body.records as unknown[]).length,
    /** What the node itself is told over UDP. */
    dig: (name: string) =>
      ns.run('sh', '-c', `dig @127.0.0.1 +tries=1 +time=1 +short ${name}.example.org A || true`).trim(),
    /** Resolves when the responder has a change before it and has not read it. */
    async asked() {
      await until('a change waits for the responder', () => {
        const lines = ns.run('ss', '-x', '-n', '-H').split('\n')
        const waits = (line: string) => line.includes(`${socket}.`) && Number(line.trim().split(/\s+/)[2]) > A_CHANGE
        return lines.some(waits) || undefined
      })
    },
  }
}

async function facility({ call }: RunningAgent): Promise<Told['facilities'][number] | undefined> {
  const told = (await call('GET', '/control/v1/services')).body as unknown as Told
  return told.facilities.find(({ name }) => name === 'responder')
}

/** Kills every process that `pids` tells, until the returned function is called. */
function killing(pids: () => number[]): { count(): number; stop(): void } {
  const seen = new Set<number>()
  const look = () => {
    for (const pid of pids()) if (killed(pid)) seen.add(pid)
  }
  look()
  const clock = setInterval(look, 5)
  return { count: () => seen.size, stop: () => clearInterval(clock) }
}

t.test('dns-10 a change before a process that is killed is built anew on its successor', async (t) => {
  const at = await site(t)
  for (const [name, status, change] of [
    ['DNS', 201, () => at.record('www')],
    ['DHCP', 200, at.reserve],
  ] as const) {
    const former = at.pids()
    t.equal(former.length, 1, `control: one process (${name})`)
    const pid = former[0] as number
    // It reads nothing any more, so that it is killed before the change is carried out and after it was asked for.
    process.kill(pid, 'SIGSTOP')
    const answer = change()
    await at.asked()
    killed(pid)
    t.match(await answer, { status }, name)
    t.strictNotSame(at.pids(), former)
    // Behind it what the loss has set off has come to its end.
    t.match(await at.agent.call('POST', '/api/v1/rules', { action: 'accept' }), { status: 201 })
  }
  t.equal(at.dig('www'), '192.0.2.80', 'and what was there before is there')
  t.same([await at.recorded(), await at.reserved()], [1, 1])
  t.match(await facility(at.agent), { available: true, restarts: 2 })
})

t.test('changes while every successor is killed are taken back with 503, until the killing ends', async (t) => {
  const at = await site(t)
  t.match(await at.record('old'), { status: 201 })
  t.equal(at.dig('old'), '192.0.2.80')
  const killer = killing(at.pids)
  t.teardown(killer.stop)
  for (let n = 0; n < 4; n++)
    for (const answer of [await at.record('www'), await at.reserve()])
      t.match(answer, {
        status: 503,
        body: { error: /^the change was taken back: the responder .*; try again$/ },
      })
  t.same([await at.recorded(), await at.reserved()], [1, 0], 'nothing is left of them')
  t.match(
    await until('the facility is off', async () => {
      const told = await facility(at.agent)
      return told?.available ? undefined : told
    }),
    { detail: /^the responder (ended by itself; it is started anew|cannot be started: )/ },
  )
  t.match(await at.agent.call('GET', '/api/v1/rules'), { status: 200 }, 'and nothing else is off')
  t.match(await at.agent.call('POST', '/api/v1/rules', { action: 'accept' }), { status: 201 })
  t.ok(killer.count() >= 8, `killed ${killer.count()}`)
  killer.stop()
  t.match(await at.record('www'), { status: 201 })
  t.match(await at.reserve(), { status: 200 })
  t.match(await facility(at.agent), { available: true })
  t.same([at.dig('old'), at.dig('www')], ['192.0.2.80', '192.0.2.80'])
  t.same([await at.recorded(), await at.reserved()], [2, 1])
})
