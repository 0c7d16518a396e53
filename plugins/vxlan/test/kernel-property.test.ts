/** Random changes and kills on the real kernel: what iproute2 and nft show is what REST lists. SEED repeats a run. */
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import type { Network } from '../schemas.ts'
import { NETWORKS, type Site, site } from './site.ts'

requireRoot(t)

const CHANGES = Number(process.env.CHANGES ?? 80)
const KILL_EVERY = 40
const FLOOD = '00:00:00:00:00:00'

const listed = async ({ agent }: Site) => (await agent.call('GET', NETWORKS)).body.vxlan_networks as Network[]

/** What the kernel shall hold for what is listed. */
function wanted(networks: readonly Network[]): ReturnType<Site['kernel']> {
  const fdb = networks.flatMap(({ vni, peers }) =>
    peers.flatMap(({ mac, vtep_ip }) => [FLOOD, ...(mac ? [mac] : [])].map((one) => `vx${vni} ${one} dst ${vtep_ip}`)),
  )
  const vteps = networks.flatMap(({ peers }) => peers.map(({ vtep_ip }) => vtep_ip))
  return {
    devices: networks.map(({ vni }) => `vx${vni} ${vni} 4789 192.0.2.1 mtu 1450 br-work isolated`).sort(),
    fdb: [...new Set(fdb)].sort(),
    vteps: [...new Set(vteps)].sort(),
  }
}

t.test('vxlan-13 the kernel holds what is listed, whatever was changed and killed', async (t) => {
  const node = await site(t)
  const { agent } = node
  const roll = chance(SEED)
  const one = <T>(...values: T[]): T => values[Math.floor(roll() * values.length)] as T
  const agrees = async (what: string) => t.same(node.kernel(), wanted(await listed(node)), `${what} (SEED=${SEED})`)
  const seen = new Set<string>()
  for (let n = 1; n <= CHANGES; n++) {
    const vni = one(1, 2, 16_777_215)
    const [host, mac] = [one('a', 'b', 'c', 'd'), one('', '02:00:00:00:00:01', '02:00:00:00:00:02')]
    const vtep_ip = one('192.0.2.2', '192.0.2.3', '198.51.100.4')
    const [method, path, body] = one<[string, string, object?]>(
      ['POST', NETWORKS, { vni, subnet: one('', '10.0.0.0/24') }],
      ['POST', `${NETWORKS}/${vni}/peers`, { host, mac, vtep_ip }],
      ['POST', `${NETWORKS}/${vni}/peers`, { host, mac, vtep_ip }],
      ['POST', `${NETWORKS}/${vni}/peers`, { host, mac, vtep_ip }],
      ['DELETE', `${NETWORKS}/${vni}/peers/${host}`],
      ...(roll() < 0.3 ? [['DELETE', `${NETWORKS}/${vni}`] as [string, string]] : []),
    )
    const answer = await agent.call(method, path, body)
    seen.add(`${method} ${answer.status}`)
    if (n % 10 === 0) await agrees(`after ${n} changes`)
    if (n % KILL_EVERY !== 0) continue
    await agent.kill('SIGKILL')
    await agent.restart()
    await agrees(`after kill ${n / KILL_EVERY}`)
  }
  t.same([...seen].sort(), ['DELETE 200', 'DELETE 404', 'POST 201', 'POST 404', 'POST 409'], `control (SEED=${SEED})`)
  for (const { vni } of await listed(node)) await agent.call('DELETE', `${NETWORKS}/${vni}`)
  t.same(node.kernel(), { devices: [], fdb: [], vteps: [] })
})
