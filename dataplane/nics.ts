/**
 * The network cards of this node: devices with hardware (or a hypervisor's) behind them. Asked of the kernel at every
 * call, and by netlink, because /sys/class/net belongs to the namespace of whoever mounted it.
 */
import { existsSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { ethtoolFamily, linkSpeed } from './netlink/ethtool.ts'
import { type Link, listLinks } from './netlink/link.ts'
import type { Netlink } from './netlink/socket.ts'

export interface Nic {
  name: string
  /** `0000:00:03.0`; '' for a device on another bus. */
  pci: string
  driver: string
  /** 0 where unknown. */
  speedMbps: number
  status: 'up' | 'down'
  /** The name was given by the installer, which keeps a link file for it. */
  renamed: boolean
}

const PCI_ADDRESS = /^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/
/** Where the installer puts the link files (systemd.link(5)) that name the uplinks. */
const linkFile = (name: string) => join('/etc/systemd/network', `10-stratum-${name}.link`)

/** By name. Rejects as {@link Netlink.dump} does. */
export async function listNics(route: Netlink, generic: Netlink): Promise<Nic[]> {
  const links = (await listLinks(route)).filter(({ device }) => device !== undefined)
  const family = links.length === 0 ? undefined : await ethtoolFamily(generic)
  const nics = links.map(async (link) => ({
    name: link.name,
    ...placeOf(link),
    speedMbps: family === undefined ? 0 : await linkSpeed(generic, family, link.index),
    status: link.running ? ('up' as const) : ('down' as const),
    renamed: existsSync(linkFile(link.name)),
  }))
  return (await Promise.all(nics)).sort((a, b) => (a.name < b.name ? -1 : 1))
}

function placeOf({ device }: Link): Pick<Nic, 'pci' | 'driver'> {
  const path = join('/sys/bus', device?.bus ?? '', 'devices', device?.name ?? '')
  try {
    // A virtio device hangs below the PCI function that carries it.
    const above = realpathSync(path).split('/')
    return {
      pci: above.findLast((part) => PCI_ADDRESS.test(part)) ?? '',
      driver: basename(readlinkSync(join(path, 'driver'))),
    }
  } catch {
    // Gone meanwhile, or without a driver of its own.
    return { pci: '', driver: '' }
  }
}
