/** Commands of the cluster. */
import { columns, harmless, path, UsageError, type Verb } from '../../core/cli/verb.ts'
import type { JoinCode, Status, Summary } from './schemas.ts'

type Standing = Summary & Status & { off?: string }

function described({ node_id, state, leader, peers, enabled, off, trust }: Standing): string {
  if (peers.length === 0 && off !== undefined) return `${node_id}: in no cluster (${off})`
  const own = [node_id, '-', state, 'this node']
  const others = peers.map(({ id, address, role, status, last_seen }) => {
    return [id, address, role, status === 'online' ? status : `offline, seen ${last_seen ?? 'never'}`]
  })
  const head = ['ID', 'ADDRESS', 'ROLE', 'STATUS']
  const remark = leader === '' ? '\nno leader: what the members share cannot be changed by way of this node now' : ''
  const behind = trust?.behind ?? []
  const late =
    behind.length === 0
      ? ''
      : `\nyet to take up who the members are, in the certificates that they accept: ${behind.join(', ')}`
  return `${columns([head, own, ...others])}${enabled ? '' : '\nclustering is not enabled'}${remark}${late}`
}

export const verbs: readonly Verb[] = [
  {
    path: 'cluster status',
    summary: 'show the members of the cluster as this node sees them',
    example: 'cluster status',
    async run({ call, print }) {
      const answer = await call<Standing>('GET', '/control/v1/cluster')
      print(answer, described(answer))
    },
  },
  {
    path: 'cluster join-code create',
    summary: 'make a code by which one node may join; it is shown this once',
    example: 'cluster join-code create --ttl 1h',
    options: [{ flags: '--ttl <duration>', summary: 'how long it is good, 1m to 7d; default 3h', duration: true }],
    async run({ call, options: { ttl }, print, note }) {
      const body = ttl === undefined ? {} : { ttl_seconds: ttl }
      const answer = await call<{ code: string; join_code: JoinCode }>('POST', '/control/v1/cluster/join-codes', body)
      print(answer, answer.code)
      const { id, expires_at } = answer.join_code
      note(
        `This is join code ${id}, good once and until ${expires_at}. Give it to \`stratumctl cluster join\` on the new node.`,
      )
    },
  },
  {
    path: 'cluster join-code list',
    summary: 'list the join codes and what became of them',
    example: 'cluster join-code list',
    async run({ call, print }) {
      const answer = await call<{ join_codes: JoinCode[] }>('GET', '/api/v1/cluster/join-codes')
      const rows = answer.join_codes.map((code) => [
        code.id,
        code.state,
        code.expires_at,
        code.created_by,
        code.used_by,
      ])
      const head = ['ID', 'STATE', 'EXPIRES', 'CREATED BY', 'USED BY']
      print(answer, rows.length === 0 ? 'no join codes' : columns([head, ...rows]))
    },
  },
  {
    path: 'cluster join-code revoke',
    summary: 'revoke a join code',
    example: 'cluster join-code revoke jc-0f3a5b7c9d1e',
    arguments: [{ name: 'id', summary: 'of the code' }],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/cluster/join-codes/${argument('id')}`)
      print(answer, `join code ${answer.id} revoked`)
    },
  },
  {
    path: 'cluster join',
    summary: 'make this node a member; the join code comes from standard input',
    example: 'cluster join --address 192.0.2.2 < code',
    options: [{ flags: '--address <address>', summary: 'of this node, for the other members; sets cluster_address' }],
    async run({ call, options: { address }, stdin, print }) {
      const code = (await stdin('join code: ')).trim()
      if (code === '') throw new UsageError('the join code is missing: give it on standard input')
      if (address !== undefined) {
        await call('PUT', '/control/v1/config/cluster_address', { value: String(address) })
        await call('PUT', '/control/v1/config/cluster_enabled', { value: 'on' })
      }
      const answer = await call<{ node_id: string; cluster: string }>('POST', '/control/v1/cluster/join', { code })
      print(answer, harmless(`${answer.node_id} is a member of cluster ${answer.cluster}`))
    },
  },
  {
    path: 'cluster leave',
    summary: 'leave the cluster, and go on with all there is',
    example: 'cluster leave',
    async run({ call, print }) {
      const answer = await call('POST', '/api/v1/cluster/leave')
      print(answer, 'this node is in no cluster')
    },
  },
  {
    path: 'cluster members remove',
    summary: 'remove another member, which need not be there',
    example: 'cluster members remove n3',
    arguments: [{ name: 'id', summary: 'of the member' }],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/cluster/members/${argument('id')}`)
      print(answer, `${answer.id} is no member any more`)
    },
  },
  {
    path: 'cluster recover',
    summary: 'go on without all other members, after they are lost for good and a majority with them',
    example: 'cluster recover',
    async run({ call, print, note }) {
      const answer = await call<{ node_id: string }>('POST', '/control/v1/cluster/recover')
      print(answer, `${answer.node_id} goes on without the other members`)
      note('Should one of the others come back, it must be wiped before it joins again.')
    },
  },
]
