/**
 * Three machines around a router on which the agent runs: client (r1), server (r2) and another client (r3), IPv4 and IPv6.
 * What passes and what does not is asked of the machines, so a test sees what a user would.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type AgentOptions, type RunningAgent, startAgent } from '../../../test/agent.ts'
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import { lane, laneEnv } from './lane.ts'
import { type Order, PASS_MS, SILENT_MS, type Target } from './peer.ts'

export const CLIENT = {
  v4: '10.1.0.2',
  second4: '10.1.0.130',
  v6: 'fd01::2',
  second6: 'fd01:0:0:0:8000::2',
  mac: '02:00:00:00:01:02',
}
export const SERVER = { v4: '10.2.0.2', second4: '10.2.0.130', v6: 'fd02::2', second6: 'fd02:0:0:0:8000::2' }
export const OTHER = { v4: '10.3.0.2', v6: 'fd03::2', mac: '02:00:00:00:03:02' }
/** The router as the client sees it. */
export const ROUTER = { v4: '10.1.0.1', v6: 'fd01::1' }

export interface Peer {
  ns: Netns
  serve(proto: 'tcp' | 'udp', ports: readonly number[], everyMs?: number): Promise<void>
  probe(pass: readonly Target[], drop: readonly Target[]): Promise<{ pass: boolean[]; drop: boolean[] }>
  /** A conversation that stays open; TCP is connected when it resolves. */
  open(target: Target): Promise<Talk>
  /** Datagrams without end, from one port or (`fresh`) each from a new one. */
  spray(target: Target, options: { fresh: boolean; everyMs: number }): Promise<{ stop(): Promise<number> }>
  /** Datagrams that a served port received: resolves at `count`, or when no more come. */
  heard(port: number, count: number): Promise<number>
}

export interface Talk {
  /** An answer to what we say comes back. */
  lives(): Promise<boolean>
  /** No answer to what we say comes back. */
  dies(): Promise<boolean>
  /** What the other end says unasked arrives. */
  hears(): Promise<boolean>
  /** What the other end says unasked stops to arrive, soon. */
  deaf(): Promise<boolean>
}

export interface Lab {
  client: Peer
  server: Peer
  other: Peer
  /** A peer on the router itself, to serve there. */
  node: Peer
  router: Netns
  agent: RunningAgent
  /** Creates a rule and returns its id; throws unless 201. */
  rule(fields: object): Promise<number>
  /** Expects 200 and returns the body. */
  put(path: string, body: unknown): Promise<Record<string, unknown>>
  /** Ids of the rules. */
  ids(): Promise<number[]>
  /** Default deny and one rule, by which {@link OPEN} passes and {@link SHUT} does not. Returns its id. */
  enclose(): Promise<number>
  /** No rule and default allow. */
  reset(): Promise<void>
}

export const tcp = (host: string, port: number, more: Partial<Target> = {}): Target => ({
  proto: 'tcp',
  host,
  port,
  ...more,
})
export const udp = (host: string, port: number, more: Partial<Target> = {}): Target => ({
  proto: 'udp',
  host,
  port,
  ...more,
})
export const ping = (host: string, from?: string): Target => ({ proto: 'ping', host, port: 0, ...(from && { from }) })

/** To the server: what passes when port 1000 is open, and what does not when all else is shut. */
export const OPEN = [udp(SERVER.v4, 1000), tcp(SERVER.v6, 1000)]
export const SHUT = [udp(SERVER.v4, 1001), tcp(SERVER.v6, 1001)]

/** Asserts that what `pass` names answers `peer`, and that what `drop` names does not. */
export async function sees(
  t: Pick<Test, 'same'>,
  peer: Peer,
  { pass = [], drop = [] }: { pass?: readonly Target[]; drop?: readonly Target[] },
  message: string,
): Promise<void> {
  const got = await peer.probe(pass, drop)
  const verdicts = (targets: readonly Target[], answers: readonly boolean[]) =>
    targets.map((target, at) => `${name(target)} ${answers[at] ? 'passes' : 'is dropped'}`)
  const all = (targets: readonly Target[], answer: boolean) =>
    verdicts(
      targets,
      targets.map(() => answer),
    )
  t.same(
    [...verdicts(pass, got.pass), ...verdicts(drop, got.drop)],
    [...all(pass, true), ...all(drop, false)],
    message,
    // The lines compared say it all; the source of this helper says nothing.
    { at: null, stack: '' },
  )
}

const name = ({ proto, host, port, from, sport }: Target) =>
  `${proto} ${host} ${port || ''}${from ? ` from ${from}` : ''}${sport ? ` sport ${sport}` : ''}`

export async function lab(t: Scope, options: Omit<AgentOptions, 'ns'> = {}): Promise<Lab> {
  const [router, client, server, other] = [machine(t, 'r'), machine(t, 'c'), machine(t, 's'), machine(t, 'o')]
  router.run('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
  link(t, router, 'r1', client, 1, CLIENT, ['10.1.0.130/24', 'fd01:0:0:0:8000::2/64'])
  link(t, router, 'r2', server, 2, {}, ['10.2.0.130/24', 'fd02:0:0:0:8000::2/64'])
  link(t, router, 'r3', other, 3, OTHER, [])
  const [agent, clientPeer, serverPeer, otherPeer, node] = await Promise.all([
    startAgent(t, { ...options, env: { ...laneEnv, ...options.env }, ns: router }),
    ...[client, server, other, router].map(peer),
  ])
  if (!clientPeer || !serverPeer || !otherPeer || !node) throw new TypeError('four machines make four peers')
  const { call } = agent
  await inLane(agent)
  const put: Lab['put'] = async (path, body) => {
    const { status, body: answer, text } = await call('PUT', path, body)
    if (status !== 200) throw new Error(`PUT ${path}: ${status} ${text}`)
    return answer
  }
  const rule: Lab['rule'] = async (fields) => {
    const { status, body, text } = await call('POST', '/api/v1/rules', fields)
    if (status !== 201) throw new Error(`POST ${JSON.stringify(fields)}: ${status} ${text}`)
    return (body.rule as { id: number }).id
  }
  const ids = async () => ((await call('GET', '/api/v1/rules')).body.rules as { id: number }[]).map(({ id }) => id)
  return {
    client: clientPeer,
    server: serverPeer,
    other: otherPeer,
    node,
    router,
    agent,
    put,
    rule,
    ids,
    async enclose() {
      await put('/api/v1/rules/default', { default_action: 'deny' })
      return rule({ action: 'accept', dest_port: 1000, comment: 'open' })
    },
    async reset() {
      for (const id of await ids()) await call('DELETE', `/api/v1/rules/${id}`)
      await put('/api/v1/rules/default', { default_action: 'allow' })
    },
  }
}

/** What a lane proves is only proved when its judge is the one. */
async function inLane({ call }: RunningAgent): Promise<void> {
  const { facilities } = (await call('GET', '/control/v1/services')).body as {
    facilities: { name: string; available: boolean; detail: string }[]
  }
  const classifier = facilities.find(({ name }) => name === 'classifier')
  if (classifier?.available !== (lane === 'classifier')) throw new Error(`not judged by ${lane}: ${classifier?.detail}`)
}

/** A namespace whose addresses work at once, and whose own source ports keep clear of those that probes use. */
function machine(t: Scope, label: string): Netns {
  const ns = netns(t, label)
  ns.run('sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0', 'net.ipv6.conf.all.accept_dad=0')
  ns.run('sysctl', '-qw', 'net.ipv4.ip_local_port_range=61000 65535')
  return ns
}

function link(
  t: Scope,
  router: Netns,
  device: string,
  ns: Netns,
  net: number,
  { mac }: { mac?: string },
  more: readonly string[],
): void {
  const [v4, v6] = [`10.${net}.0`, `fd0${net}:`]
  veth(
    t,
    { ns: router, name: device, addr: [`${v4}.1/24`, `${v6}:1/64`] },
    { ns, name: 'eth0', addr: [`${v4}.2/24`, `${v6}:2/64`, ...more], ...(mac && { mac }) },
  )
  ns.run('ip', 'route', 'add', 'default', 'via', `${v4}.1`)
  ns.run('ip', '-6', 'route', 'add', 'default', 'via', `${v6}:1`)
}

async function peer(ns: Netns): Promise<Peer> {
  const child = ns.spawn(process.execPath, [join(import.meta.dirname, 'peer.js')], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  await once(child, 'message')
  const give = orders(child)
  const counter = { next: 1 }
  const listen = (talk: string, say: boolean, ms: number) => give<boolean>({ do: 'hears', name: talk, say, ms })
  return {
    ns,
    async serve(proto, ports, everyMs) {
      for (const port of ports) await give({ do: 'serve', proto, port, ...(everyMs !== undefined && { everyMs }) })
    },
    probe: (pass, drop) => give({ do: 'probe', pass, drop }),
    async open(target) {
      const talk = `talk${counter.next++}`
      await give({ do: 'open', name: talk, target })
      return {
        lives: () => listen(talk, true, PASS_MS),
        dies: async () => !(await listen(talk, true, SILENT_MS)),
        hears: () => listen(talk, false, PASS_MS),
        async deaf() {
          for (const end = Date.now() + PASS_MS; Date.now() < end; ) {
            if (!(await listen(talk, false, SILENT_MS))) return true
          }
          return false
        },
      }
    },
    async spray(target, { fresh, everyMs }) {
      const spray = `spray${counter.next++}`
      await give({ do: 'spray', name: spray, target, fresh, everyMs })
      return { stop: () => give<number>({ do: 'stop', name: spray }) }
    },
    heard: (port, count) => give({ do: 'heard', port, count }),
  }
}

interface Waiting {
  resolve: (result: unknown) => void
  reject: (error: Error) => void
}

/** Orders may be given while others are being carried out. */
function orders(child: ChildProcess): <T>(order: Order) => Promise<T> {
  const waiting = new Map<number, Waiting>()
  let next = 1
  child.on('message', ({ id, result, problem }: { id: number; result?: unknown; problem?: string }) => {
    const order = waiting.get(id)
    waiting.delete(id)
    if (problem === undefined) order?.resolve(result)
    else order?.reject(new Error(problem))
  })
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the peer ended'))
  })
  return <T>(order: Order) =>
    new Promise<T>((resolve, reject) => {
      const id = next++
      // What an order resolves to is settled in peer.ts.
      waiting.set(id, { resolve: (result) => resolve(result as T), reject })
      child.send({ id, order })
    })
}
