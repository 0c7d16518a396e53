/** Opens the load balancer: takes over what an earlier agent pinned, and joins the parts. */
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bridgedFramesMeetHooks } from '../../bridge-netfilter.ts'
import type { Netlink } from '../../netlink/socket.ts'
import { BPF_LAYOUT, LB_PLACES, WORK_BRIDGE } from '../../numbers.ts'
import { type Driver, KernelRefusal } from '../../plane.ts'
import { ensureBpffs, layoutDir, layouts, removeLayout } from '../bpffs.ts'
import { checked, libbpf } from '../libbpf.ts'
import { openLink } from '../link.ts'
import { openObject } from '../object.ts'
import { mend, standing } from './adopt.ts'
import type { Balancer } from './balancer.ts'
import { balancerConnections } from './connections.ts'
import { balancerDriver } from './driver.ts'
import { followDevices } from './follow.ts'
import { BalancerLinks, ifGone } from './links.ts'
import { type BalancerMaps, balancerMaps } from './maps.ts'
import { namespaceCookie, SocketLinks, ticks } from './sockets.ts'
import { VipTable } from './table.ts'

/** Where the build puts the object of bpf/src/lb.bpf.c. */
export const BALANCER_OBJECT = fileURLToPath(new URL('../src/lb.bpf.o', import.meta.url))

/** Maps that the classifier has made: the programs ask it before they balance. */
const CLASSIFIER_MAPS = ['filter_settings', 'filter_tables', 'filter_devices', 'filter_arena4', 'filter_arena6']

/** Between two runs of the program that forgets idle connections. */
const SWEEP_MS = 5000

/** enum bpf_cmd of linux/bpf.h */
const BPF_PROG_TEST_RUN = 10

/** What the programs route by: as if a packet came from the node itself. */
const FORWARDING = ['/proc/sys/net/ipv4/conf/lo/forwarding', '/proc/sys/net/ipv6/conf/lo/forwarding']

export interface BalancerOptions {
  /** Directory on a bpf filesystem for the pins of this agent; the classifier must have been opened there. */
  root: string
  route: Netlink
  /** Told of what goes wrong outside any change. */
  onProblem(error: unknown): void
}

export interface OpenBalancer {
  driver: Driver
  balancer: Balancer
  connections: ReturnType<typeof balancerConnections>
  /** Forgets idle connections and recounts the others, as is done every few seconds anyway. */
  sweep(): Promise<void>
}

const pinRoot = (root: string): string => join(root, 'lb')

/** @throws Error that says what is missing (the classifier, Linux 6.6, root) */
export async function openBalancer({ root, route, onProblem }: BalancerOptions): Promise<OpenBalancer> {
  ensureBpffs(root)
  const firewall = join(root, 'firewall', `v${BPF_LAYOUT}`)
  const missing = CLASSIFIER_MAPS.find((name) => !existsSync(join(firewall, name)))
  if (missing !== undefined) throw new Error('the programs need the classifier of the firewall, which does not run')
  const pins = pinsOf(root)
  const object = openObject(BALANCER_OBJECT, { ...pins, rodata: { lb_namespace: namespaceCookie(), lb_hz: ticks() } })
  await object.load()
  const maps = balancerMaps(object)
  const table = new VipTable(maps)
  for (const it of await mend(maps, await standing(maps))) table.adopt(it)
  const links = new BalancerLinks(pins.pinDir, object.program('lb_in'), maps.devices)
  const sockets = new SocketLinks(pins.pinDir, object)
  const follower = followDevices({ route, links, sockets, needed: () => table.size > 0, onProblem })
  const sweep = () => run(object.program('lb_tidy').fd)
  let sweeping: Promise<void> | undefined
  const timer = setInterval(() => {
    if (table.size === 0) return
    sweeping ??= sweep()
      .catch(onProblem)
      .finally(() => {
        sweeping = undefined
      })
  }, SWEEP_MS)
  timer.unref()
  const driver = balancerDriver({
    table,
    follower,
    observe: () => observed(maps, table),
    prepare: letRoute,
    async close() {
      clearInterval(timer)
      await follower.close()
      await sweeping
      maps.close()
      object.close()
    },
  })
  const observe = driver.observe
  return {
    driver: {
      ...driver,
      async observe(desired) {
        const found = await observe(desired)
        // Every device has the program of this layout by now.
        for (const layout of layouts(pinRoot(root))) if (layout !== BPF_LAYOUT) removeLayout(pinRoot(root), layout)
        return found
      },
    },
    balancer: {
      accelerated: true,
      activeConnections: (vip, backend) => activeOf(maps, table, vip, backend),
      detail: () => detailOf(table),
    },
    connections: balancerConnections(maps),
    sweep,
  }
}

/** Where the maps of the object are pinned: those of the classifier beside. */
export function pinsOf(root: string): { pinDir: string; pins: Record<string, string> } {
  const firewall = join(root, 'firewall', `v${BPF_LAYOUT}`)
  const pins = Object.fromEntries(CLASSIFIER_MAPS.map((name) => [name, join(firewall, name)]))
  return { pinDir: layoutDir(pinRoot(root)), pins }
}

/** Whether an agent has pinned a load balancer below `root`. */
export const balancerAttached = (root: string): boolean => existsSync(pinRoot(root))

/** Takes off what an agent has pinned below `root`, in whatever layout. False when there was nothing. */
export async function removeBalancer(root: string): Promise<boolean> {
  if (!existsSync(pinRoot(root))) return false
  const folders = layouts(pinRoot(root)).flatMap((layout) =>
    ['links', 'sockets'].map((kind) => join(pinRoot(root), `v${layout}`, kind)),
  )
  for (const folder of folders.filter((it) => existsSync(it))) {
    // The kernel ends a link that only loses its pin some time later.
    for (const name of readdirSync(folder)) await openLink(join(folder, name)).detach().catch(ifGone)
  }
  rmSync(pinRoot(root), { recursive: true, force: true })
  return true
}

/** What the maps hold; that a ring is wrong is known since it was adopted. */
async function observed(maps: BalancerMaps, table: VipTable) {
  const found = await standing(maps)
  return found.map(({ entry, index }) => {
    const isDamaged = table.get(entry.key)?.entry.damaged === true || maps.rings.get(index) === undefined
    return isDamaged ? { ...entry, damaged: true as const } : entry
  })
}

function activeOf({ active }: BalancerMaps, table: VipTable, vip: string, backend: string): number {
  const found = table.get(`lb/vip/${vip}`)
  const placed = found?.places.get(backend)
  if (found === undefined || placed === undefined) return 0
  const count = Number(Atomics.load(active, found.index * LB_PLACES + placed.place))
  return Math.max(0, count)
}

function detailOf({ size }: VipTable): string {
  const detail = `eBPF programs, virtual addresses: ${size}`
  if (!bridgedFramesMeetHooks()) return detail
  return `${detail}; a default deny drops what backends on ${WORK_BRIDGE} answer (bridge_netfilter off ends that)`
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

/** Runs a program of type syscall, on the pool. */
async function run(fd: number): Promise<void> {
  const attributes = Buffer.alloc(80)
  attributes.writeUInt32LE(fd, 0)
  checked(await libbpf().bpf(BPF_PROG_TEST_RUN, attributes), 'sweep the connections of the load balancer')
}
