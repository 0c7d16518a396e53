/** Members → who reaches the ports of the cluster: members alone, also under a default deny (D71). Pure. */
import type { Db, Desired, DesiredBy } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import type { Chain, Entry, SetElement } from '../../dataplane/entry.ts'
import { type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import { opening } from '../firewall/offers.ts'
import { MEMBERS_REF, queries } from './queries.ts'
import { INPUT, memberSet } from './skeleton.ts'
import { hostIn } from './standing.ts'
import type { Self } from './tables.ts'

const AREA = 'cluster'

/** TCP ports that other members call here. */
export const portsOf = (config: Config): number[] => [config.int('cluster_port'), config.int('cluster_peer_port')]

/** `<node>=<peer URL>,…` → the nodes and their addresses. */
export const toldOf = ({ initialCluster }: Pick<Self, 'initialCluster'>): { node: string; address: string }[] =>
  initialCluster.split(',').map((part) => {
    const at = part.indexOf('=')
    return { node: part.slice(0, at), address: hostIn(part.slice(at + 1)) }
  })

/**
 * Where the other members are, each once. A node that enters has seen nobody yet and goes by what it was told; a member goes by
 * who is a member now, so that one that was removed is no longer among them.
 */
function addresses(db: Db, me: Self): Set<string> {
  const seen = queries(db).members.all()
  const others = me.mode === 'joining' ? [...seen, ...toldOf(me)] : seen
  return new Set(others.map(({ address }) => address).filter((address) => address !== me.address))
}

function element({ family, text }: Prefix): SetElement {
  const set = memberSet(family)
  return { kind: 'element', key: `${AREA}/${set}/${text}`, set, element: text }
}

const only = (port: number): string[] => [
  `tcp dport ${port} ip saddr != @${memberSet(4)} drop`,
  `tcp dport ${port} ip6 saddr != @${memberSet(6)} drop`,
]

function guard({ peerPort, newcomersUntil }: Self, config: Config): Chain {
  const rules = [...only(peerPort), ...(newcomersUntil === '' ? only(config.int('cluster_port')) : [])]
  return { kind: 'chain', key: `${AREA}/${INPUT}`, chain: INPUT, rules }
}

/** In no cluster nothing listens on these ports. */
function* entries(db: Db, config: Config): Generator<Entry> {
  const me = queries(db).self.get()
  if (me === undefined) return
  yield guard(me, config)
  for (const address of addresses(db, me)) {
    const prefix = parsePrefix(address)
    if (prefix === undefined) continue
    yield element(prefix)
    for (const port of [config.int('cluster_port'), me.peerPort]) yield opening('tcp', port, prefix)
  }
}

/** Members are few: they are one thing. */
const rendered: Desired = {
  all: (db, config) => entries(db, config),
  one: (db, id, config) => (id === MEMBERS_REF.id ? [...entries(db, config)] : []),
}

const nothing: Desired = { all: () => [], one: () => [] }

export const desired: DesiredBy = (kinds) => (kinds.has('element') ? rendered : nothing)
