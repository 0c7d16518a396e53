/** The load balancer while it is loaded: takes over what an earlier agent wrote, and joins the parts. */
import { join } from 'node:path'
import type { Netlink } from '../../netlink/socket.ts'
import { LB_PLACES } from '../../numbers.ts'
import type { Attaching } from '../attach/attaching.ts'
import { checked, libbpf } from '../libbpf.ts'
import type { BpfObject } from '../object.ts'
import { PinFolders } from '../pinned.ts'
import { mend, standing } from './adopt.ts'
import { type Balanced, balancerConnections } from './connections.ts'
import type { VipEntry } from './entries.ts'
import { followDevices } from './follow.ts'
import { BalancerLinks, balancerKind } from './links.ts'
import { type BalancerMaps, balancerMaps } from './maps.ts'
import { SocketLinks } from './sockets.ts'
import { VipTable } from './table.ts'

/** enum bpf_cmd of linux/bpf.h */
const BPF_PROG_TEST_RUN = 10

export interface SessionParts {
  /** Loaded; the session closes it. */
  object: BpfObject
  /** Where links are pinned. */
  pinDir: string
  route: Netlink
  attaching: Attaching
  /** Told of what goes wrong outside any change. */
  onProblem(error: unknown): void
}

export interface Session {
  table: VipTable
  /** Puts back what somebody has deleted or taken off, if that can be seen at a glance. @throws KernelError */
  hold(): Promise<void>
  /** Brings the programs to the devices that there are. @throws KernelError */
  sync(): Promise<void>
  /** The entries that the maps hold. */
  observe(): Promise<VipEntry[]>
  /** Connections of a backend. */
  active(vip: string, backend: string): number
  connections: Balanced
  /** Forgets idle connections and recounts the others. */
  sweep(): Promise<void>
  /** Ends the handles; what is pinned goes on. */
  close(): Promise<void>
}

export async function openSession({ object, pinDir, route, attaching, onProblem }: SessionParts): Promise<Session> {
  const maps = balancerMaps(object)
  const table = new VipTable(maps)
  for (const it of await mend(maps, await standing(maps))) table.adopt(it)
  const attachments = attaching.of(balancerKind(pinDir))
  const links = new BalancerLinks(attachments, object.program('lb_in'), maps.devices, onProblem)
  const sockets = new SocketLinks(pinDir, object)
  const follower = followDevices({ route, links, sockets, needed: () => table.size > 0, onProblem })
  const deaf = attaching.onChange(() => follower.doubt())
  const folders = new PinFolders([pinDir, join(pinDir, 'links'), join(pinDir, 'sockets')])
  const sync = () => {
    object.pinAgain()
    return follower.sync()
  }
  let sweeping: Promise<void> = Promise.resolve()
  return {
    table,
    hold: () => folders.hold(sync),
    sync,
    observe: () => observed(maps, table),
    active: (vip, backend) => activeOf(maps, table, vip, backend),
    connections: balancerConnections(maps),
    sweep() {
      // Behind one that runs, which may have gone past what its caller wants it to see.
      const swept = sweeping.then(() => run(object.program('lb_tidy').fd))
      sweeping = swept.catch(() => {})
      return swept
    },
    async close() {
      deaf()
      await follower.close()
      await sweeping
      maps.close()
      object.close()
    },
  }
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

/** Runs a program of type syscall, on the pool. */
async function run(fd: number): Promise<void> {
  const attributes = Buffer.alloc(80)
  attributes.writeUInt32LE(fd, 0)
  checked(await libbpf().bpf(BPF_PROG_TEST_RUN, attributes), 'sweep the connections of the load balancer')
}
