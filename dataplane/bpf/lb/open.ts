/**
 * Opens the load balancer. Programs and maps cost 0.4 s and 80 MB, so they are there only while there are virtual addresses:
 * made with the first one, taken over from an earlier agent, and given up when there has been none for a while.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bridgedFramesMeetHooks } from '../../bridge-netfilter.ts'
import type { Netlink } from '../../netlink/socket.ts'
import { BPF_LAYOUT, WORK_BRIDGE } from '../../numbers.ts'
import { type Driver, KernelRefusal } from '../../plane.ts'
import type { Attaching } from '../attach/attaching.ts'
import { detachPinned } from '../attach/attachments.ts'
import { ensureBpffs, FOLDER, KEPT, layoutDir, layouts, pinsIn, removeLayout } from '../bpffs.ts'
import { openObject } from '../object.ts'
import type { Balancer } from './balancer.ts'
import type { Balanced } from './connections.ts'
import { balancerDriver } from './driver.ts'
import { balancerKind } from './links.ts'
import { openSession, type Session } from './session.ts'
import { namespaceCookie, ticks } from './sockets.ts'

/** Where the build puts the object of bpf/src/lb.bpf.c. */
export const BALANCER_OBJECT = fileURLToPath(new URL('../src/lb.bpf.o', import.meta.url))

/** Maps that the classifier has made: the programs ask it before they balance. */
const CLASSIFIER_MAPS = ['filter_settings', 'filter_tables', 'filter_devices', 'filter_arena4', 'filter_arena6']

/** Between two runs of the program that forgets idle connections. */
const SWEEP_MS = 5000

/** What the programs route by: as if a packet came from the node itself. */
const FORWARDING = ['/proc/sys/net/ipv4/conf/lo/forwarding', '/proc/sys/net/ipv6/conf/lo/forwarding']

export interface BalancerOptions {
  /** Directory on a bpf filesystem for the pins of this agent; the classifier must have been opened there. */
  root: string
  route: Netlink
  attaching: Attaching
  /** Told of what goes wrong outside any change. */
  onProblem(error: unknown): void
}

export interface OpenBalancer {
  driver: Driver
  balancer: Balancer
  connections: Balanced
  /** Forgets idle connections and recounts the others, as is done every few seconds anyway. */
  sweep(): Promise<void>
  /** What is done every few seconds besides: gives up the programs when there was nothing to balance twice in a row. */
  rest(): Promise<void>
}

const pinRoot = (root: string): string => join(root, 'lb')
const classifierPins = (root: string): string => join(root, 'firewall', `v${BPF_LAYOUT}`)

/**
 * Takes over at once what is pinned or attached, and what {@link keepTrace} tells of. Else nothing is loaded yet, and a kernel that
 * refuses the programs says so to the first change, and to the next agent here. A kernel without tcx is older than those
 * that the programs are known to pass on, so there they are loaded once, to see.
 * @throws Error that says what is missing (the classifier, root)
 */
export async function openBalancer(options: BalancerOptions): Promise<OpenBalancer> {
  const { root, attaching, onProblem } = options
  ensureBpffs(root)
  const missing = CLASSIFIER_MAPS.find((name) => !existsSync(join(classifierPins(root), name)))
  if (missing !== undefined) throw new Error('the programs need the classifier of the firewall, which does not run')
  const isThere = existsSync(pinRoot(root)) || (await attachedBalancers(root, attaching).list()).length > 0
  let loaded: Session | undefined = isThere || attaching.form === 'clsact' ? await load(options) : undefined
  /** Loads and unloads, one after the other. */
  let lane: Promise<unknown> = Promise.resolve()
  let idle = 0
  /** Changes and comparisons under way, which hold what is loaded. */
  let busy = 0
  /** What an earlier agent has pinned serves until a comparison has brought the devices this one's programs. */
  let hasSettled = loaded === undefined

  const inLane = <T>(work: () => Promise<T>): Promise<T> => {
    const result = lane.then(work)
    lane = result.catch(() => {})
    return result
  }
  const ready = () =>
    inLane(async () => {
      idle = 0
      loaded ??= await load(options)
      return loaded
    })
  const rest = () =>
    inLane(async () => {
      idle = loaded?.table.size === 0 ? idle + 1 : 0
      if (loaded === undefined || idle < 2 || busy > 0 || !hasSettled) return
      const { close } = loaded
      loaded = undefined
      await close()
      await removeBalancer(root, attaching)
    })
  const during = async <T>(work: () => Promise<T>): Promise<T> => {
    busy++
    try {
      return await work()
    } finally {
      busy--
    }
  }
  const beat = async () => {
    if (loaded !== undefined && loaded.table.size > 0) await loaded.sweep()
    await rest()
  }
  const timer = setInterval(() => void beat().catch(onProblem), SWEEP_MS)
  timer.unref()
  const driver = balancerDriver({
    standing: () =>
      inLane(async () => {
        idle = 0
        return loaded
      }),
    ready: async () => {
      try {
        return await ready()
      } catch (cause) {
        throw new KernelRefusal(refusal(cause), { cause })
      }
    },
    // Every device has the programs of this layout by now.
    settled() {
      hasSettled = true
      for (const layout of layouts(pinRoot(root))) if (layout !== BPF_LAYOUT) removeLayout(pinRoot(root), layout)
    },
    prepare: letRoute,
    async close() {
      clearInterval(timer)
      await inLane(async () => {
        await loaded?.close()
        loaded = undefined
      })
    },
  })
  return {
    driver: {
      ...driver,
      hold: () => during(async () => driver.hold?.()),
      observe: () => during(() => driver.observe()),
      apply: (diff) =>
        during(async () => {
          const undo = await driver.apply(diff)
          return undo && (() => during(undo))
        }),
    },
    balancer: {
      accelerated: true,
      activeConnections: (vip, backend) => loaded?.active(vip, backend) ?? 0,
      detail: () => detailOf(loaded?.table.size ?? 0),
    },
    connections: {
      list: () => inLane(async () => (await loaded?.connections.list()) ?? []),
      end: (those) => inLane(async () => (await loaded?.connections.end(those)) ?? 0),
    },
    sweep: async () => loaded?.sweep(),
    rest,
  }
}

async function load({ root, route, attaching, onProblem }: BalancerOptions): Promise<Session> {
  const pins = pinsOf(root)
  const rodata = { lb_namespace: namespaceCookie(), lb_hz: ticks() }
  const object = openObject(BALANCER_OBJECT, { ...pins, rodata, keepIn: join(pins.pinDir, KEPT) })
  await object.load()
  try {
    return await openSession({ object, pinDir: pins.pinDir, route, attaching, onProblem })
  } catch (error) {
    object.close()
    throw error
  }
}

function refusal(cause: unknown): string {
  const [why = ''] = (cause as Error).message.split('\n')
  return `the eBPF load balancer cannot be loaded: ${why}; after a restart of the agent nft balances instead`
}

/** Where the maps of the object are pinned: those of the classifier beside. */
export function pinsOf(root: string): { pinDir: string; pins: Record<string, string> } {
  const pins = Object.fromEntries(CLASSIFIER_MAPS.map((name) => [name, join(classifierPins(root), name)]))
  return { pinDir: layoutDir(pinRoot(root)), pins }
}

const attachedBalancers = (root: string, attaching: Attaching) =>
  attaching.of(balancerKind(join(pinRoot(root), `v${BPF_LAYOUT}`)))

/** Whether an agent has pinned a load balancer below `root`, or attached one otherwise. */
export async function balancerAttached(root: string, attaching?: Attaching): Promise<boolean> {
  if (existsSync(pinRoot(root)) && layouts(pinRoot(root)).length > 0) return true
  return attaching !== undefined && (await attachedBalancers(root, attaching).list()).length > 0
}

/** Takes off what an agent has attached, and what it has pinned below `root`, in whatever layout. False when there was nothing. */
export async function removeBalancer(root: string, attaching?: Attaching): Promise<boolean> {
  const attached = attaching && attachedBalancers(root, attaching)
  const places = (await attached?.list()) ?? []
  for (const place of places) await attached?.detach(place)
  if (!existsSync(pinRoot(root))) return places.length > 0
  const folders = layouts(pinRoot(root)).flatMap((layout) =>
    ['links', 'sockets'].map((kind) => join(pinRoot(root), `v${layout}`, kind)),
  )
  for (const folder of folders) {
    // The kernel ends a link that only loses its pin some time later.
    for (const name of pinsIn(folder)) await detachPinned(join(folder, name))
  }
  rmSync(pinRoot(root), { recursive: true, force: true })
  return true
}

/** Leaves a sign that nft balances here, so that the next agent which may do better tries at once whether it can. */
export const keepTrace = (root: string): void => void mkdirSync(pinRoot(root), FOLDER)

function detailOf(size: number): string {
  const detail = `eBPF programs, virtual addresses: ${size}`
  if (!bridgedFramesMeetHooks()) return detail
  return `${detail}; a default deny drops answers of backends at open ports of ${WORK_BRIDGE} (bridge_netfilter off ends that)`
}

/** As forwarding.ts: only ever switched on. */
function letRoute(): void {
  for (const path of FORWARDING) {
    if (!existsSync(path)) continue
    try {
      writeFileSync(path, '1')
    } catch (error) {
      throw new KernelRefusal(`${path} cannot be set to 1: ${(error as Error).message}`)
    }
  }
}
