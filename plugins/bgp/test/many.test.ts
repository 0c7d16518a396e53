/** Many neighbors by REST, a session each. `NEIGHBORS`: how many; a few by default. */
import t from 'tap'
import { whyNoBgp } from '../../../test/frr.ts'
import { requireRoot } from '../../../test/netns.ts'
import { BGP, bird, lab, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const MANY = Number(process.env.NEIGHBORS ?? 8)

t.test(
  'neighbors that are set up one after another are all established, and all are told',
  { skip: whyNoBgp('bird') },
  async (t) => {
    const { node, peer, sure, neighbors } = await lab(t, {
      config: { api_rate_limit: '100000', api_rate_burst: '100000' },
    })
    const all = Array.from({ length: MANY }, (_, at) => ({ at, own: `10.8.${at}.2`, node: `10.8.${at}.1` }))
    const batch = (side: 'own' | 'node') => all.map((it) => `address add ${it[side]}/30 dev e0`).join('\n')
    for (const [ns, side] of [
      [peer, 'own'],
      [node, 'node'],
    ] as const)
      ns.run('sh', '-c', `echo '${batch(side)}' | ip -batch -`)
    const protocols = all.map(
      (it) =>
        `protocol bgp p${it.at} from quick { local ${it.own} as ${65_100 + it.at}; neighbor ${it.node} as 65001; ipv4 { import all; export none; }; ipv6 { import none; export none; }; }`,
    )
    const other = await bird(t, peer, protocols.join('\n'))
    const since = Date.now()
    for (const it of all) {
      await sure('POST', `${BGP}/neighbors`, {
        peer_addr: it.own,
        peer_as: 65_100 + it.at,
        local_as: 65_001,
        bfd_enabled: false,
      })
    }
    t.comment(`${MANY} neighbors by REST: ${Date.now() - since} ms`)
    await until('all are established', async () => (await neighbors()).every(({ state }) => state === 'Established'))
    t.comment(`all established: ${Date.now() - since} ms`)
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.2.0/24' })
    await until('all are told', () => (other.route('192.0.2.0/24')?.match(/\[p\d+ /g) ?? []).length === MANY)
    t.equal((await neighbors()).length, MANY)
  },
)
