/**
 * A node with workloads: the real agent in a namespace, and guests in namespaces of their own, each behind a port of
 * `br-work`. `const node = await workloadNode(t)`, then `node.guest('a', {...})`.
 */
import http from 'node:http'
import { type AgentOptions, type RunningAgent, startAgent } from './agent.ts'
import { type Netns, netns, type Scope } from './netns.ts'

export interface GuestOptions {
  mac?: string
  /** CIDRs. */
  addresses?: readonly string[]
  /** Default route. */
  gateway?: string
  /** false: its port stays out of the bridge. */
  plugged?: boolean
}

export interface Guest {
  ns: Netns
  /** Name of its port on the node. */
  port: string
  /** Puts its port into `br-work`, as a hypervisor does. */
  plug(): void
  unplug(): void
  setMac(mac: string): void
  /** Whether an echo request to `address` is answered within a second; `from` is a source address or device. */
  pings(address: string, from?: string): boolean
  /** The same for what must be so soon: waits up to ten seconds, for a port to be found or a neighbour to be asked again. */
  reaches(address: string, from?: string): boolean
}

export interface WorkloadNode {
  ns: Netns
  agent: RunningAgent
  guest(name: string, options?: GuestOptions): Guest
  /** Calls the API; throws unless it answers 2xx. */
  ok(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>
  /** Resolves when the agent guards the port of each guest. */
  guarded(...guests: readonly Guest[]): Promise<void>
  /** Resolves when it guards none of them. */
  unguarded(...guests: readonly Guest[]): Promise<void>
  /** Resolves when the port of each guest belongs to no network. */
  open(...guests: readonly Guest[]): Promise<void>
  /** Resolves when the port of each guest belongs to a network. */
  inNetwork(...guests: readonly Guest[]): Promise<void>
  /** The first event of a type, from the beginning on; waits for it. */
  event(type: string, holds?: (data: Record<string, unknown>) => boolean): Promise<Record<string, unknown>>
}

/** Starts the agent with its bridges. */
export async function workloadNode(t: Scope, options: Partial<AgentOptions> = {}): Promise<WorkloadNode> {
  const ns = options.ns ?? netns(t, 'node')
  const agent = await startAgent(t, { ns, ...options })
  const counter = { next: 1 }
  return {
    ns,
    agent,
    guest: (name, more = {}) => guest(t, ns, `${name}${counter.next++}`, more),
    async ok(method, path, body) {
      const answer = await agent.call(method, path, body)
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
      return answer.body
    },
    guarded: (...guests) => portsUntil(agent, (nets) => guests.every(({ port }) => nets.has(port))),
    unguarded: (...guests) => portsUntil(agent, (nets) => guests.every(({ port }) => !nets.has(port))),
    open: (...guests) => portsUntil(agent, (nets) => guests.every(({ port }) => nets.get(port) === 0)),
    inNetwork: (...guests) => portsUntil(agent, (nets) => guests.every(({ port }) => (nets.get(port) ?? 0) > 0)),
    event: (type, holds) => firstEvent(agent, type, holds),
  }
}

/** Asks until the guarded ports and the nets they are in are as wanted: the agent follows the bridge and tells nobody. */
async function portsUntil({ call }: RunningAgent, wanted: (nets: Map<string, number>) => boolean): Promise<void> {
  const signal = AbortSignal.timeout(20_000)
  for (;;) {
    signal.throwIfAborted()
    const { body } = await call('GET', '/control/v1/l2/ports')
    // The control route answers what plane.ports.list() returns.
    const ports = body.ports as { name: string; net: number }[]
    if (wanted(new Map(ports.map(({ name, net }) => [name, net])))) return
    await new Promise((wait) => setTimeout(wait, 10))
  }
}

function firstEvent(
  { socket }: RunningAgent,
  type: string,
  holds: (data: Record<string, unknown>) => boolean = () => true,
): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const request = http.get({ socketPath: socket, path: `/control/v1/events?since=0&types=${type}`, agent: false })
    const timer = setTimeout(() => request.destroy(new Error(`no event ${type} within 20 s`)), 20_000)
    request.on('error', reject)
    request.on('response', (response) => {
      let text = ''
      response.on('error', reject).setEncoding('utf8')
      response.on('data', (part: string) => {
        text += part
        const lines = text.split('\n').slice(0, -1)
        const event = lines
          .map((line) => (line === '' ? {} : JSON.parse(line)))
          .find((one) => one.type === type && holds(one.data))
        if (event === undefined) return
        clearTimeout(timer)
        resolve(event)
        request.destroy()
      })
    })
  })
}

function echo(ns: Netns, patience: readonly string[], address: string, from: string | undefined): boolean {
  const source = from === undefined ? [] : ['-I', from]
  try {
    ns.run('ping', '-n', '-q', '-c', '1', ...patience, ...source, address)
    return true
  } catch {
    return false
  }
}

/** ping ends at once when a neighbour that it asked for before has not answered that: then it is asked again. */
function echoWithin(seconds: number, ns: Netns, address: string, from: string | undefined): boolean {
  const end = performance.now() + seconds * 1000
  for (let left = seconds; left > 0; left = Math.ceil((end - performance.now()) / 1000)) {
    if (echo(ns, ['-i', '0.2', '-w', String(left)], address, from)) return true
  }
  return false
}

/** A guest behind a port of the node, where no `workloadNode` makes it. */
export function guest(t: Scope, node: Netns, name: string, options: GuestOptions): Guest {
  const ns = netns(t, name)
  const port = `tap${name}`
  node.run('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', ns.name)
  node.run('ip', 'link', 'set', port, 'up')
  const it: Guest = {
    ns,
    port,
    plug: () => void node.run('ip', 'link', 'set', port, 'master', 'br-work'),
    unplug: () => void node.run('ip', 'link', 'set', port, 'nomaster'),
    setMac(mac) {
      ns.run('ip', 'link', 'set', 'eth0', 'address', mac)
    },
    pings: (address, from) => echo(ns, ['-W', '1'], address, from),
    reaches: (address, from) => echoWithin(10, ns, address, from),
  }
  if (options.mac !== undefined) it.setMac(options.mac)
  ns.run('ip', 'link', 'set', 'eth0', 'up')
  for (const address of options.addresses ?? []) ns.run('ip', 'address', 'add', address, 'dev', 'eth0')
  if (options.gateway !== undefined) ns.run('ip', 'route', 'add', 'default', 'via', options.gateway)
  if (options.plugged !== false) it.plug()
  return it
}
