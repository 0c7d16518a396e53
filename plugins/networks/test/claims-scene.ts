/** Two tenants' machines on one node, and what is done to them and asked about them, on frames. */
import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { frame, type Tap, tap } from '../../../test/frames.ts'
import type { WorkloadNode } from '../../../test/workload.ts'
import { type PortedMachine, portedMachine } from './machines-on-ports.ts'

const P = '/api/v1'
export const [HOME, ELSEWHERE, THIEF, OTHER] = ['tapowner', 'tapother', 'tapthief', '02:00:00:00:00:77'] as const
export const SETTINGS = ['roam', 'sticky', 'named'] as const
export type Setting = (typeof SETTINGS)[number]

export interface Endpoint {
  id: string
  ip: string
  mac: string
  kept_port?: string
}

/** A machine, and the end of the cable that it has now. */
interface Machine {
  machine: PortedMachine
  end?: Tap | undefined
}

export interface Scene {
  t: Test
  node: WorkloadNode
  setting: Setting
  near: Tap
  fence: Tap
  /** Of the owner's network, and of the thief's. */
  at: string
  theirs: string
  owner: Machine
  thief: Machine
  /** Of the owner, and of the thief by right. */
  endpoint: Endpoint
  own: Endpoint
}

/** Sends until what it sends has come, or three times in vain. */
export async function passes(
  { fence }: Scene,
  from: Tap | undefined,
  to: Tap,
  mac: string,
  tries = 3,
): Promise<boolean> {
  const mark = randomBytes(16)
  for (let n = 0; n < tries; n++) {
    from?.send(frame({ from: mac }, mark))
    const end = randomBytes(16)
    fence.send(frame({ from: fence.mac }, end))
    await wait(2)
    if (to.seen().some((one) => one.includes(mark))) return true
    if (tries > 3) await wait(20)
  }
  return false
}

/** Whether the machine is the endpoint: speaks as it to the neighbour, and hears it. Waits when it shall be. */
export async function is(scene: Scene, who: 'owner' | 'thief', shall: boolean, what: string, mac = scene.endpoint.mac) {
  const { t, setting, near } = scene
  const { end } = scene[who]
  if (end === undefined) throw new Error(`${who} is off`)
  const tries = shall ? 250 : 3
  t.equal(await passes(scene, end, near, mac, tries), shall, `${setting}: ${what}: ${who} speaks`)
  t.equal(await passes(scene, near, end, near.mac, tries), shall, `${setting}: ${what}: ${who} hears`)
}

export async function on(scene: Scene, who: 'owner' | 'thief', port: string, index?: number): Promise<void> {
  const { mac, ip } = who === 'owner' ? scene.endpoint : scene.own
  await scene[who].machine.on(port, mac, ip, index)
  scene[who].end = tap(scene.t, scene[who].machine.ns)
}

export function off(scene: Scene, who: 'owner' | 'thief'): void {
  scene[who].machine.off()
  scene[who].end = undefined
}

export const ip = ({ node }: Scene, ...args: string[]): string => node.ns.run('ip', ...args)
export const indexOf = (scene: Scene, port: string): number =>
  JSON.parse(ip(scene, '-j', 'link', 'show', port))[0].ifindex
export const put = ({ node, at, endpoint }: Scene, what: 'port' | 'mac', body: object) =>
  node.ok('PUT', `${at}/endpoints/${endpoint.id}/${what}`, body)

type Held = { name: string; ifindex: number; net: number }

/** Asks for the guarded ports until what `found` finds is as it shall be. */
async function ask({ node }: Scene, found: (port: Held) => boolean, holds: (net?: number) => boolean) {
  for (const signal = AbortSignal.timeout(10_000); ; await wait(5)) {
    signal.throwIfAborted()
    const net = ((await node.ok('GET', '/control/v1/l2/ports')).ports as Held[]).find(found)?.net
    if (holds(net)) return net
  }
}

/** Waits until the port is known by this name, or its net is as it shall be; resolves to that. */
export const listed = (scene: Scene, port: string, holds: (net?: number) => boolean = (net) => net !== undefined) =>
  ask(scene, ({ name }) => name === port, holds)

/** The thief in its own network, by its own MAC; resolves to the number of that. */
export function byRight(scene: Scene): Promise<number | undefined> {
  return listed(scene, THIEF, (net = 0) => {
    scene.thief.end?.send(frame({ from: scene.own.mac }, Buffer.alloc(46)))
    return net > 1
  })
}

/** Until the owner's first device is kept by name, where it shall be. */
export const settled = (scene: Scene): Promise<void> => keeps(scene, scene.at, scene.endpoint, HOME)

async function keeps({ node, setting }: Scene, at: string, { mac }: Endpoint, port: string): Promise<void> {
  for (const signal = AbortSignal.timeout(10_000); setting === 'sticky'; await wait(5)) {
    signal.throwIfAborted()
    const { endpoints } = await node.ok('GET', `${at}/endpoints?mac=${mac}`)
    if ((endpoints as Endpoint[])[0]?.kept_port === port) return
  }
}

/** Sends from a MAC without pause until what it returns is called. */
export function traffic({ t }: Scene, end: Tap | undefined, mac: string): () => void {
  const one = frame({ from: mac }, Buffer.alloc(46))
  const timer = setInterval(() => {
    for (let n = 0; n < 8; n++) end?.send(one)
  }, 1)
  t.teardown(() => clearInterval(timer))
  return () => clearInterval(timer)
}

/** The owner is on and the endpoint; the thief is on, and in its own network. */
export async function bothOn(scene: Scene): Promise<void> {
  await on(scene, 'owner', HOME)
  await is(scene, 'owner', true, 'on')
  await settled(scene)
  await on(scene, 'thief', THIEF)
  await byRight(scene)
  // The kernel knows of it first; the agent refuses the device to other networks once it has written it down.
  await keeps(scene, scene.theirs, scene.own, THIEF)
}

/** Two tenants' networks, and two machines of the first that are always on. */
export async function stage(t: Test, node: WorkloadNode) {
  const network = async (name: string, cidr: string) => {
    const { tenant } = await node.ok('POST', `${P}/tenant`, { name })
    const body = { name, cidr, tenant_id: (tenant as { id: string }).id }
    const { network } = await node.ok('POST', `${P}/networks`, body)
    return `${P}/networks/${(network as { id: string }).id}`
  }
  const [at, theirs] = [await network('owner', '10.0.0.0/24'), await network('thief', '10.1.0.0/24')]
  const steady = async (label: string) => {
    const [machine, port] = [portedMachine(t, node, label), `tap${label}`]
    const { endpoint } = await node.ok('POST', `${at}/attach`, { port })
    const { mac, ip } = endpoint as Endpoint
    await machine.on(port, mac, ip)
    return tap(t, machine.ns)
  }
  const [near, fence] = [await steady('near'), await steady('fence')]
  const [owner, thief]: Machine[] = [{ machine: portedMachine(t, node, 'o') }, { machine: portedMachine(t, node, 't') }]
  if (owner === undefined || thief === undefined) throw new Error('no machines')
  return { t, node, near, fence, at, theirs, owner, thief }
}
