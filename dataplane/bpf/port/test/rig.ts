/** br-work with guests behind its ports, and the driver of the programs there; all in this process's own namespace. */
import { execFileSync } from 'node:child_process'
import { type Tap, tap } from '../../../../test/frames.ts'
import { type Netns, netns, type Scope } from '../../../../test/netns.ts'
import { NETLINK_ROUTE } from '../../../netlink/bind.ts'
import { openNetlink } from '../../../netlink/socket.ts'
import { openNft } from '../../../nft/session.ts'
import { attachingHere } from '../../test/support.ts'
import { PortLinks, portKind } from '../links.ts'
import { openPorts } from '../open.ts'

/** The areas of the entries. */
const OWNERS = {
  net: 'networks',
  binding: 'networks',
  macbind: 'macbind',
  vlan: 'vlan',
  uplink: 'l2',
  tenant_net: 'billing',
} as const
/** Runs `ip` with these arguments. */
export const run = (line: string): string =>
  execFileSync('ip', line.split(' '), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** A bridge and guests `a`, `b`, … behind ports of the same names. */
export function bridged(t: Scope, names: readonly string[]): Record<string, { ns: Netns; tap: Tap }> {
  run('link add br-work type bridge mcast_snooping 0')
  run('link set br-work up')
  t.teardown(() => {
    // With their namespaces ports go some time later, those too that are on br-work no more.
    const ports = Array.from(run('-o link show master br-work').matchAll(/^[0-9]+: ([^@:]+)/gm), ([, name]) => name)
    const input = [...new Set([...ports, ...names])].map((name) => `link del dev ${name}\n`).join('')
    execFileSync('sh', ['-c', 'ip -force -batch - || true'], { input, stdio: ['pipe', 'ignore', 'ignore'] })
    run('link del br-work')
  })
  return Object.fromEntries(
    names.map((name) => {
      const ns = netns(t, name)
      run(`link add name ${name} type veth peer name eth0 netns ${ns.name}`)
      run(`link set dev ${name} up master br-work`)
      ns.run('ip', 'link', 'set', 'eth0', 'up')
      return [name, { ns, tap: tap(t, ns) }]
    }),
  )
}

/** What the agent asks the kernel by, and the transactions that it had nft make. `during` is awaited before each of them. */
export async function sockets(during: () => unknown = () => {}) {
  const [route, nft] = [openNetlink(NETLINK_ROUTE), await openNft()]
  const written: string[] = []
  const beside = {
    async run(lines: readonly string[]) {
      written.push(lines.join('\n'))
      await during()
      await nft.run(`${lines.join('\n')}\n`)
    },
    list: (what: string) => nft.run(`list ${what}\n`),
  }
  const close = async () => {
    await route.close()
    await nft.close()
  }
  return { route, nft: beside, written, close }
}

/** The agent's part, and what went wrong outside any change. `during` as in {@link sockets}. */
export async function opened(t: Scope, root: string, during?: () => unknown) {
  const { close: end, written, ...asked } = await sockets(during)
  const problems: unknown[] = []
  const onProblem = (error: unknown) => void problems.push(error)
  const attaching = await attachingHere(t)
  const { driver, ports, programs } = await openPorts({ root, ...asked, attaching, owners: OWNERS, onProblem })
  const close = async () => {
    await driver.close()
    await end()
  }
  const links = new PortLinks(attaching.of(portKind(programs.dir, programs.set)), programs.object)
  return { driver, ports, problems, links, programs, written, close }
}
