/**
 * A node with an agent, a client on its uplink, and backends behind br-work which serve TCP and UDP on port 8080, each by
 * its name. What is balanced is asked of the client, so a test sees what a user would.
 */
import { type Machine, machine } from '../../../dataplane/bpf/lb/test/machine.ts'
import type { Asked } from '../../../dataplane/bpf/lb/test/peer.ts'
import type { RunningAgent } from '../../../test/agent.ts'
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import { until } from '../../../test/segment.ts'
import { workloadNode } from '../../../test/workload.ts'
import type { LoadBalancer } from '../schemas.ts'
import { LB } from './area.ts'
import { lane, laneEnv } from './lane.ts'

export const [NODE, CLIENT, VIP] = ['198.51.100.1', '198.51.100.2', '198.51.100.10']
export const VIP6 = '2001:db8:1::10'
export const backendIp = (n: number): string => `10.9.0.${10 + n}`
export const backendIp6 = (n: number): string => `fd09::${10 + n}`

export interface Lab {
  node: Netns
  agent: RunningAgent
  client: Machine
  /** By their numbers from 1. */
  backends: Machine[]
  /** Calls the API; throws unless it answers 2xx. */
  ok(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>
  /** Makes a VIP, of `web` at port 80 with backends 1 to `count` unless told otherwise. */
  serve(count: number, fields?: object, backend?: (n: number) => object): Promise<void>
  join(vip: string, n: number, fields?: object): Promise<void>
  leave(vip: string, n: number): Promise<void>
  say(vip: string, n: number, healthy: boolean): Promise<void>
  drop(vip: string): Promise<void>
  vip(id: string): Promise<LoadBalancer>
  /** Connections of each backend, in order of their names. */
  active(id: string): Promise<number[]>
  /** Who answered, in turn: names of backends, or errors. */
  ask(count: number, asked?: Partial<Asked>): Promise<string[]>
  /** Opens a connection; which backend has it, and whether it still lives when asked. */
  open(asked?: Partial<Asked>): Promise<Held>
}

export interface Held {
  with: string
  lives(): Promise<boolean>
  close(how?: 'fin' | 'reset'): Promise<void>
}

export async function lab(t: Scope, count: number): Promise<Lab> {
  const ns = netns(t, 'node')
  const [clientNs] = [netns(t, 'c')]
  veth(
    t,
    { ns, name: 'eth0', addr: [`${NODE}/24`, '2001:db8:1::1/64'] },
    { ns: clientNs, name: 'eth0', addr: [`${CLIENT}/24`, '2001:db8:1::2/64'] },
  )
  ns.run('ip', 'route', 'add', 'default', 'via', CLIENT)
  // Without the agent's help: IPv6 has one setting for the whole node.
  ns.run('sysctl', '-qw', 'net.ipv6.conf.all.forwarding=1')
  const { agent, guest, ok } = await workloadNode(t, { ns, env: laneEnv, config: { open_ports: 'open' } })
  const { summary } = ((await ok('GET', '/api/v1/status')).acceleration ?? {}) as { summary?: string }
  const named = lane === 'nft' ? /load balancer: nft/ : /load balancer: eBPF/
  if (!named.test(summary ?? '')) throw new Error(`another lane: ${summary}`)
  for (const address of ['10.9.0.1/24', 'fd09::1/64']) {
    ns.run('ip', 'address', 'add', address, 'dev', 'br-work', ...(address.includes(':') ? ['nodad'] : []))
  }
  const backends: Machine[] = []
  for (let n = 1; n <= count; n++) {
    const { ns: inner, reaches } = guest(`b${n}`, { addresses: [`${backendIp(n)}/24`], gateway: '10.9.0.1' })
    inner.run('ip', 'address', 'add', `${backendIp6(n)}/64`, 'dev', 'eth0', 'nodad')
    inner.run('ip', '-6', 'route', 'add', 'default', 'via', 'fd09::1')
    for (const way of ['10.9.0.1', 'fd09::1']) if (!reaches(way)) throw new Error(`${way} is not reached`)
    const one = machine(inner)
    for (const protocol of ['tcp', 'udp'] as const) await one.tell('listen', { protocol, port: 8080, name: `b${n}` })
    backends.push(one)
  }
  const client = machine(clientNs)
  clientNs.run('ping', '-n', '-q', '-c', '1', '-i', '0.2', '-w', '20', NODE)
  const at = { address: VIP, port: 80 }
  const vip = async (id: string) => (await ok('GET', `${LB}/${id}`)).load_balancer as LoadBalancer
  const join: Lab['join'] = async (id, n, fields = {}) => {
    await ok('POST', `${LB}/${id}/backends`, { id: `b${n}`, ip: backendIp(n), port: 8080, ...fields })
  }
  return {
    node: ns,
    agent,
    client,
    backends,
    ok,
    async serve(many, fields = {}, backend = () => ({})) {
      const body = { id: 'web', frontend_ip: VIP, frontend_port: 80, algorithm: 'round-robin', ...fields }
      await ok('POST', LB, body)
      for (let n = 1; n <= many; n++) await join(body.id, n, backend(n))
    },
    join,
    leave: async (id, n) => void (await ok('DELETE', `${LB}/${id}/backends/b${n}`)),
    say: async (id, n, healthy) => void (await ok('POST', `${LB}/${id}/backends/b${n}/health`, { healthy })),
    drop: async (id) => void (await ok('DELETE', `${LB}/${id}`)),
    vip,
    active: async (id) => (await vip(id)).backends.map(({ active_conns }) => active_conns),
    ask: async (many, asked = {}) =>
      (await client.tell('ask', { ...at, timeoutMs: 5000, ...asked, count: many })).map(firstWord),
    async open(asked = {}) {
      const { handle, line } = await client.tell('open', { ...at, timeoutMs: 5000, ...asked })
      return {
        with: firstWord(line),
        lives: async () => (await client.tell('say', { handle, text: 'are you there' })) === 'same',
        close: (how = 'fin') => client.tell('close', { handle, how }),
      }
    },
  }
}

const firstWord = (line: string) => line.split(' ')[0] ?? ''

/** Waits until a count is as it shall be: what a packet changes is read a moment later. */
export const counts = (lab: Lab, id: string, wanted: readonly number[]): Promise<void> =>
  until(`connections of ${id} are ${wanted}`, async () => (await lab.active(id)).join() === wanted.join())

/** How often each stands there. */
export function tallied(names: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {}
  for (const name of names) found[name] = (found[name] ?? 0) + 1
  return found
}

/** Makes VIP `web`, and connections that stand: two at each of three backends. */
export async function six({ serve, open }: Lab): Promise<Held[]> {
  await serve(3)
  const held: Held[] = []
  for (let n = 0; n < 6; n++) held.push(await open())
  return held
}

/** Which of them live, by their backends. */
export const living = async (held: readonly Held[]) => {
  const lives = await Promise.all(held.map((one) => one.lives()))
  return held.filter((_, at) => lives[at]).map((one) => one.with)
}

export const ends = async (held: readonly Held[]) => {
  for (const one of held) await one.close('reset')
}
