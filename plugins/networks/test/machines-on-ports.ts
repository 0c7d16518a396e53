/** Machines whose devices come and go, as a hypervisor makes them: each device is a port of `br-work` for a time. */
import { type Netns, netns, type Scope } from '../../../test/netns.ts'
import type { WorkloadNode } from '../../../test/workload.ts'

export interface PortedMachine {
  readonly ns: Netns
  /** Makes its device on the node, of this name (and ifindex), and its NIC; resolves when the agent guards it. */
  on(port: string, mac: string, ip: string, index?: number): Promise<void>
  /** The same without an agent. */
  onAlone(port: string, mac: string, ip: string, index?: number): void
  /** Takes the device away, if there is one. */
  off(): void
  /** Whether `address` answers: soon, or within a second. */
  reaches(address: string): boolean
  pings(address: string): boolean
}

export function portedMachine(t: Scope, node: WorkloadNode, name: string): PortedMachine {
  const ns = netns(t, name)
  let device: string | undefined
  const ping = (...args: string[]) => {
    try {
      ns.run('ping', '-n', '-q', '-c', '1', ...args)
      return true
    } catch {
      return false
    }
  }
  const it: PortedMachine = {
    ns,
    onAlone(port, mac, ip, index) {
      it.off()
      const at = index === undefined ? [] : ['index', String(index)]
      node.ns.run('ip', 'link', 'add', port, ...at, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', ns.name)
      device = port
      ns.run('ip', 'link', 'set', 'eth0', 'address', mac)
      ns.run('sysctl', '-qw', 'net.ipv6.conf.eth0.disable_ipv6=1')
      ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
      node.ns.run('ip', 'link', 'set', port, 'master', 'br-work', 'up')
      ns.run('ip', 'link', 'set', 'eth0', 'up')
    },
    async on(port, mac, ip, index) {
      it.onAlone(port, mac, ip, index)
      await guarded(node, port)
    },
    off() {
      if (device !== undefined) node.ns.run('ip', 'link', 'del', device)
      device = undefined
    },
    reaches(address) {
      // A ping ends early when ARP that began before it gets no answer: whoever asks again is answered.
      const end = performance.now() + 10_000
      while (performance.now() < end) if (ping('-i', '0.2', '-w', '2', address)) return true
      return false
    },
    pings: (address) => ping('-W', '1', address),
  }
  return it
}

interface Listed {
  name: string
  ifindex: number
}

/** Resolves when the agent guards the device that has this name now. */
export async function guarded(node: WorkloadNode, port: string): Promise<void> {
  const ifindex = JSON.parse(node.ns.run('ip', '-j', 'link', 'show', 'dev', port))[0].ifindex as number
  const signal = AbortSignal.timeout(20_000)
  for (;;) {
    signal.throwIfAborted()
    const ports = (await node.ok('GET', '/control/v1/l2/ports')).ports as Listed[]
    if (ports.some((one) => one.name === port && one.ifindex === ifindex)) return
    await new Promise((wait) => setTimeout(wait, 10))
  }
}
