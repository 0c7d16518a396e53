/** A node (10.7.0.1, fd07::1) and peers on its link, which speak BGP by bird or gobgpd. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type AgentOptions, type RunningAgent, startAgent } from '../../../test/agent.ts'
import { PATIENCE } from '../../../test/kernel-features.ts'
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import type { Neighbor, Route } from '../schemas.ts'

export const BGP = '/api/v1/bgp'
export const NODE = { 4: '10.7.0.1', 6: 'fd07::1' }
export const PEER = { 4: '10.7.0.2', 6: 'fd07::2' }
/** Generous: the machine may be busy. */
const PATIENCE_MS = 40_000 * PATIENCE

export interface Lab {
  node: Netns
  peer: Netns
  agent: RunningAgent
  /** Throws unless it succeeds; the body of the answer. */
  sure(method: string, path: string, body?: object): Promise<Record<string, unknown>>
  neighbor(addr: string): Promise<Neighbor>
  neighbors(): Promise<Neighbor[]>
  routes(query?: string): Promise<Route[]>
  /** Waits until the session is in `state`. */
  reaches(addr: string, state: string): Promise<Neighbor>
}

export async function lab(t: Scope, options: Partial<AgentOptions> = {}): Promise<Lab> {
  const [node, peer] = [netns(t, 'n'), netns(t, 'p')]
  const ends = [
    { ns: node, name: 'e0', addr: ['10.7.0.1/24', 'fd07::1/64'] },
    { ns: peer, name: 'e0', addr: ['10.7.0.2/24', 'fd07::2/64'] },
  ] as const
  veth(t, ends[0], ends[1])
  node.run('ping', '-qc1', '-w10', PEER[4])
  const agent = await startAgent(t, { ns: node, ...options })
  const sure: Lab['sure'] = async (method, path, body) => {
    const answer = await agent.call(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const neighbors = async () => (await sure('GET', `${BGP}/neighbors`)).neighbors as Neighbor[]
  const neighbor = async (addr: string) => {
    const found = (await neighbors()).find((it) => it.peer_addr === addr)
    if (found === undefined) throw new Error(`no neighbor ${addr}`)
    return found
  }
  return {
    ...{ node, peer, agent, sure, neighbors, neighbor },
    routes: async (query = '') => (await sure('GET', `${BGP}/routes${query}`)).routes as Route[],
    reaches: (addr, state) =>
      until(`${addr} is ${state}`, async () => {
        const found = await neighbor(addr)
        return found.state === state && found
      }),
  }
}

/** Waits for something that becomes true, and resolves with it. */
export async function until<T>(what: string, ask: () => T | Promise<T>): Promise<Exclude<T, false | undefined>> {
  let last: unknown
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await wait(50)) {
    last = await ask()
    if (last !== false && last !== undefined) return last as Exclude<T, false | undefined>
  }
  throw new Error(`waited in vain: ${what}`)
}

export interface Bird {
  /** The answer of `birdc`. */
  says(...command: string[]): string
  /** Other configuration, of protocols alone. */
  configure(protocols: string): void
  /** As `show route all` has it, by prefix; undefined for none from the node. */
  route(prefix: string): string | undefined
  /** `Established` and the like, and since when (ms). */
  state(protocol: string): { state: string; since: number }
  kill(signal: NodeJS.Signals): void
}

const COMMON = `
protocol device { scan time 1; }
protocol bfd { interface "*" { min rx interval 50 ms; min tx interval 50 ms; multiplier 4; }; }
template bgp quick {
  connect delay time 1; connect retry time 1; error wait time 1, 2; startup hold time 30; hold time 30; graceful restart;
  ipv4 { import all; export where source = RTS_STATIC; };
  ipv6 { import all; export where source = RTS_STATIC; };
}
`

/** A speaker in `ns` with protocols that may be of template `quick`. */
export async function bird(t: Scope, ns: Netns, protocols: string, routerId = PEER[4]): Promise<Bird> {
  const dir = mkdtempSync(join(tmpdir(), 'bird-'))
  const [file, socket] = [join(dir, 'bird.conf'), join(dir, 'bird.ctl')]
  const write = (text: string) =>
    writeFileSync(
      file,
      `router id ${routerId};\nlog "${dir}/log" all;\ntimeformat protocol iso long us;\n${COMMON}\n${text}`,
    )
  write(protocols)
  const child = ns.spawn('bird', ['-f', '-c', file, '-s', socket], { stdio: ['ignore', 'ignore', 'inherit'] })
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const says = (...command: string[]) => {
    try {
      return ns.run('birdc', '-s', socket, ...command)
    } catch (error) {
      // It fails where there is nothing to show.
      return String((error as { stdout?: string }).stdout ?? '')
    }
  }
  await until('bird answers', () => {
    if (child.exitCode !== null) throw new Error('bird has ended')
    return says('show', 'status').includes('up and running')
  })
  return {
    says,
    configure(text) {
      write(text)
      says('configure')
    },
    route(prefix) {
      const text = says('show', 'route', 'all', 'for', prefix)
      return text.includes(`${prefix} `) && text.includes('BGP.') ? text : undefined
    },
    state(protocol) {
      const line =
        says('show', 'protocols', protocol)
          .split('\n')
          .find((it) => it.startsWith(`${protocol} `)) ?? ''
      const [, since = '', state = ''] = /(\d{4}-\d\d-\d\d \S+)\s+(\w*)/.exec(line) ?? []
      return { state, since: Date.parse(since.replace(' ', 'T')) }
    },
    kill: (signal) => void child.kill(signal),
  }
}

/** bird makes the time of day from another clock anew each time. */
const CLOCKS_MS = 2000

/** Since when the session is established; waits until one that took its place would be told apart from it. */
export function steady(speaker: Bird, protocol: string): Promise<number> {
  return until(`${protocol} has been established for a while`, () => {
    const { state, since } = speaker.state(protocol)
    return state === 'Established' && Date.now() - since > CLOCKS_MS + 500 && since
  })
}

/** Whether it is still the session that was established at `since`. */
export function sameSession(speaker: Bird, protocol: string, since: number): boolean {
  const now = speaker.state(protocol)
  return now.state === 'Established' && Math.abs(now.since - since) < CLOCKS_MS
}
