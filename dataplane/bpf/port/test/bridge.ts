/** br-work in this process's namespace, its ports guarded, and the far ends of all of them in another. */
import { type Netns, netns, type Scope } from '../../../../test/netns.ts'
import { STAMP, STAMP_MASK } from '../../../numbers.ts'
import { attachingHere, run } from '../../test/support.ts'
import { PortLinks, portKind, type Role } from '../links.ts'
import { HOOKS } from '../maps.ts'
import { type Loaded, loadPrograms } from './loaded.ts'
import { Wire } from './wire.ts'
import { MAC, PORT, type PortName } from './world.ts'

/** Ports by what they are; `stranger` is on the bridge without programs. */
const UPLINKS: readonly PortName[] = ['uplink', 'fixed']
/** Tunnels have no cable. */
const CABLES = (Object.keys(PORT) as PortName[]).filter((name) => !['bridge', 'overlay', 'tunnel'].includes(name))

export interface Bridge extends Loaded {
  /** Where the far ends are, each named as its port. */
  readonly peers: Netns
  readonly wires: Readonly<Record<string, Wire>>
  /** Attaches the stubs for a port of this role. */
  guard(ifindex: number, role: Role): Promise<void>
}

/** Builds it all and guards the ports named; `t.teardown` takes it away. */
export async function bridge(t: Scope, names: readonly PortName[] = CABLES): Promise<Bridge> {
  const loaded = await loadPrograms(t)
  for (const [hook, slot] of Object.entries(HOOKS))
    await loaded.maps.programs.swap(slot, loaded.object.program(hook).fd)
  const peers = netns(t, 'peers')
  const quiet = ['net.ipv6.conf.all.disable_ipv6=1', 'net.ipv6.conf.default.disable_ipv6=1']
  peers.run('sysctl', '-qw', ...quiet)
  const bridging = ['iptables', 'ip6tables', 'arptables'].map((name) => `net.bridge.bridge-nf-call-${name}=0`)
  run('sysctl', '-qw', ...quiet, ...bridging)
  const shape = ['stp_state', '0', 'mcast_snooping', '0', 'forward_delay', '0']
  const index = ['index', String(PORT.bridge)]
  run('ip', 'link', 'add', 'br-work', ...index, 'address', MAC.node, 'type', 'bridge', ...shape)
  t.teardown(() => run('ip', 'link', 'del', 'br-work'))
  run('ip', 'link', 'set', 'br-work', 'up')
  for (const name of names) {
    run('ip', 'link', 'add', name, 'index', String(PORT[name]), 'type', 'veth', 'peer', name, 'netns', peers.name)
    run('ip', 'link', 'set', name, 'master', 'br-work', 'up')
    peers.run('ip', 'link', 'set', name, 'up')
  }
  t.teardown(() => {
    for (const name of names) run('ip', 'link', 'del', name)
  })
  const kind = portKind(loaded.pinDir, loaded.maps.programs.info.id)
  const links = new PortLinks((await attachingHere(t)).of(kind), loaded.object)
  const guard: Bridge['guard'] = async (ifindex, role) => {
    if (!(await links.attach(ifindex, role))) throw new Error(`interface ${ifindex} is gone`)
  }
  closeStrangers(names.filter((name) => name !== 'stranger'))
  t.teardown(() => run('nft', 'delete', 'table', 'bridge', 'test'))
  await guard(PORT.bridge, 'host')
  for (const name of names)
    if (name !== 'stranger') await guard(PORT[name], UPLINKS.includes(name) ? 'uplink' : 'workload')
  const wires = Object.fromEntries(names.map((name) => [name, new Wire(t, peers, name)]))
  return { ...loaded, peers, wires, guard }
}

/** The rule that the programs need beside them: what they have stamped leaves by guarded ports only. */
function closeStrangers(guarded: readonly string[]): void {
  const rule = `meta mark & ${STAMP_MASK} == ${STAMP} oifname != { ${guarded.join(', ')} } drop`
  for (const text of [
    'add table bridge test',
    'add chain bridge test forward { type filter hook forward priority 0 ; }',
    'add chain bridge test output { type filter hook output priority 0 ; }',
    `add rule bridge test forward ${rule}`,
    `add rule bridge test output ${rule}`,
  ])
    run('nft', text)
}
