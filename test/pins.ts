/** Somebody who deletes what an agent has pinned, while it runs. */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Netns } from './netns.ts'
import type { Guest, WorkloadNode } from './workload.ts'

/** Folders in which links are pinned. */
const LINKS = /^(links|sockets|queues)$/

export const WIPES = ['everything', 'the links', 'the maps'] as const
export type Wipe = (typeof WIPES)[number]

/** Deletes pins of the agent in a namespace. */
export function wipe({ name }: Netns, what: Wipe): void {
  clear(`/sys/fs/bpf/${name}`, what)
}

function clear(dir: string, what: Wipe): void {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name)
    const isLinks = LINKS.test(name)
    const isFolder = statSync(path).isDirectory()
    if (what === 'everything' || (what === 'the links' && isLinks) || (what === 'the maps' && !isFolder)) {
      remove(path)
    } else if (isFolder && !isLinks) clear(path, what)
  }
}

/** As often as the agent pins something into a folder that is being emptied. */
function remove(path: string): void {
  for (let left = 100; ; left--) {
    try {
      rmSync(path, { recursive: true, force: true })
      return
    } catch (error) {
      if (left === 0 || (error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error
    }
  }
}

/** Makes a network with the node as its gateway; resolves to its path. */
export async function network(node: WorkloadNode, name: string, cidr: string): Promise<string> {
  const gateway = cidr.replace('0/24', '1')
  const made = (await node.ok('POST', '/api/v1/networks', { name, cidr, gateway, host_gateway: true })) as {
    network: { id: string }
  }
  return `/api/v1/networks/${made.network.id}`
}

/** Attaches a machine, and plugs it in. */
export async function machine(node: WorkloadNode, name: string, at: string): Promise<Guest> {
  const { endpoint } = (await node.ok('POST', `${at}/attach`, {})) as { endpoint: { mac: string; ip: string } }
  const guest = node.guest(name, { mac: endpoint.mac, addresses: [`${endpoint.ip}/24`] })
  await node.guarded(guest)
  return guest
}
