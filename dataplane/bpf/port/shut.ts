/**
 * br-work on a node that cannot guard its ports: they carry nothing. What an earlier agent has guarded stays so without this
 * one, and stays open: its programs are in the kernel, and judge by what they know.
 */
import { join } from 'node:path'
import { NETLINK_ROUTE } from '../../netlink/bind.ts'
import { listLinks } from '../../netlink/link.ts'
import { type Netlink, openNetlink } from '../../netlink/socket.ts'
import type { Kernel } from '../../nft/spelling.ts'
import type { Driver } from '../../plane.ts'
import { attachments, type Found } from '../attach/attachments.ts'
import { Filters } from '../attach/filters.ts'
import { layouts, pinsIn } from '../bpffs.ts'
import { openGate } from './gate.ts'
import { Guard } from './guard.ts'
import { carriesNothing, Unguardable } from './guarded.ts'
import { PortLinks, portKind } from './links.ts'

export interface ShutOptions {
  /** Where agents pin. */
  root: string
  route: Netlink
  nft: Kernel
  /** Why the ports cannot be guarded. */
  why: string
  onProblem(error: unknown): void
}

/** Keeps ports of br-work shut that nobody guards, from its first `observe` on. @throws KernelError */
export function shutPorts({ root, route, nft, why, onProblem }: ShutOptions): Driver {
  const filters = new Filters(openNetlink(NETLINK_ROUTE), onProblem)
  let uplinks = new Set<string>()
  const links = new PortLinks({ ...NOTHING, list: () => left(root, filters) }, NO_PROGRAMS)
  const guard = new Guard({
    route,
    gate: openGate(nft),
    links: {
      async present() {
        const present = await links.present()
        const devices = await listLinks(route)
        uplinks = new Set(devices.flatMap(({ index, name }) => (present.whole.get(index) === 'uplink' ? [name] : [])))
        return present
      },
      attach() {
        throw new Unguardable(why)
      },
      detach: async () => {},
    },
    ports: { net: () => undefined, is: () => true, set() {}, replace: () => false, delete: () => false, entries: none },
    uplinks: () => uplinks,
    overlay: () => undefined,
    netOf: () => undefined,
    own() {},
    known() {},
    changed() {},
    replaced: async () => {},
    onProblem,
  })
  return {
    name: 'port',
    kinds: [],
    async observe() {
      await guard.sync()
      return []
    },
    apply: async () => {},
    pending: () =>
      Array.from(guard.refused(), ([name, reason]) => ({ key: `port/${name}`, reason: carriesNothing(name, reason) })),
    async close() {
      await guard.close()
      await filters.close()
    },
  }
}

/** What agents of any layout have attached. Where links cannot be looked into, their pins count. */
async function left(root: string, filters: Filters): Promise<Found[]> {
  const dirs = layouts(root).map((layout) => join(root, `v${layout}`))
  const found: Found[] = []
  for (const dir of dirs) {
    const kind = portKind(dir, 0)
    const pins = pinsIn(kind.dir)
    const blind = async () =>
      pins.flatMap((pin) => kind.place(pin) ?? []).map((place): Found => ({ ...place, stands: true }))
    found.push(...(await attachments(kind, 'tcx', undefined).list().catch(blind)))
  }
  const ours = (await filters.list()).filter(({ kind }) => kind === 'port')
  return [...found, ...ours.map(({ what, ifindex, side }) => ({ what, ifindex, direction: side, stands: true }))]
}

const NOTHING = { stands: async () => false, attach: async () => false, detach: async () => {} }
const NO_PROGRAMS = {
  program(): never {
    throw new Error('no programs are loaded')
  },
}
function* none(): Generator<[number, number]> {}
