import type { WorkloadNode } from '../../../test/workload.ts'

/** What the kernel holds for the networks, apart from the programs on the ports. */
export function held({ ns }: Pick<WorkloadNode, 'ns'>) {
  const json = (...args: string[]) => JSON.parse(ns.run('ip', '-j', '-4', ...args) || '[]')
  const onBridge = (kind: string, ...more: string[]) => json(kind, 'show', 'dev', 'br-work', ...more)
  const addresses = (onBridge('address') as { addr_info?: { local: string; prefixlen: number }[] }[]).flatMap(
    ({ addr_info = [] }) => addr_info.map(({ local, prefixlen }) => `${local}/${prefixlen}`),
  )
  const routes = (onBridge('route') as { dst: string; protocol: string }[])
    .filter(({ protocol }) => protocol !== 'kernel')
    .map(({ dst }) => dst)
  const neighbours = (onBridge('neighbour', 'nud', 'permanent') as { dst: string; lladdr: string }[]).map(
    ({ dst, lladdr }) => `${dst} ${lladdr}`,
  )
  const set = (name: string) => {
    const listed = ns.run('nft', 'list', 'set', 'inet', 'stratum', name)
    const [, inner = ''] = /elements = \{([^}]*)\}/.exec(listed) ?? []
    return inner.match(/[^\s,]+/g)?.sort() ?? []
  }
  return {
    ...{ addresses: addresses.sort(), routes: routes.sort(), neighbours: neighbours.sort() },
    ...{ snat: set('networks_snat'), inside: set('networks_inside'), uplinks: set('networks_uplinks') },
  }
}
