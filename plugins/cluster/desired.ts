/** Members → what a default deny must not keep out (D71). Pure. */
import type { Db, Desired, DesiredBy } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import type { SetElement } from '../../dataplane/entry.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { opening } from '../firewall/offers.ts'
import { MEMBERS_REF, queries } from './queries.ts'
import { hostIn } from './standing.ts'

/** TCP ports that other members call here. */
export const portsOf = (config: Config): number[] => [config.int('cluster_port'), config.int('cluster_peer_port')]

const openings = (address: string, config: Config): SetElement[] => {
  const prefix = parsePrefix(address)
  return prefix === undefined ? [] : portsOf(config).map((port) => opening('tcp', port, prefix))
}

/** Where members are: those that this node has seen, and those that it was told of when it came. Each once. */
function addresses(db: Db): Set<string> {
  const me = queries(db).self.get()
  if (me === undefined) return new Set()
  const told = me.initialCluster.split(',').map((part) => hostIn(part.slice(part.indexOf('=') + 1)))
  const seen = queries(db)
    .members.all()
    .map(({ address }) => address)
  return new Set([...seen, ...told].filter((address) => address !== me.address))
}

/** Members are few: they are one thing. */
const rendered: Desired = {
  all: (db, config) => rendered.one(db, MEMBERS_REF.id, config),
  one: (db, id, config) => (id === MEMBERS_REF.id ? [...addresses(db)].flatMap((one) => openings(one, config)) : []),
}

const nothing: Desired = { all: () => [], one: () => [] }

export const desired: DesiredBy = (kinds) => (kinds.has('element') ? rendered : nothing)
