/**
 * After any sequence of changes the kernel holds what the store does, in the spelling of the store, and nothing once all is
 * deleted. BURSTS sets how many (short by default), SEED makes a run repeatable.
 */
import t from 'tap'
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { chance } from '../../../test/chance.ts'
import { type Netns, netns, requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import type { NatRule } from '../schemas.ts'
import { FORWARD, SNAT } from './area.ts'

requireRoot(t)

const BURSTS = Number(process.env.BURSTS ?? 8)
const CHANGES = 25

const random = chance(SEED)
const below = (end: number) => Math.floor(random() * end)
const pick = <T>(all: readonly [T, ...T[]]): T => all[below(all.length)] ?? all[0]
/** Few bits, so that blocks fall into each other, and zeros to be shortened. */
const four = () => `${pick([10, 172, 192])}.${pick([0, 128])}.${below(3)}.${below(256)}`
const six = () => ['fd00', ...Array.from({ length: 7 }, () => pick(['0', '0', '1', 'ff00', 'abcd']))].join(':')

async function change({ call }: RunningAgent, ids: readonly NatRule[]): Promise<void> {
  const address = pick([four, six])
  const [dest_port, target_port] = [1 + below(65_535), 1 + below(65_535)]
  const rule = ids[below(ids.length)]
  const kind = random()
  const { status, text } =
    kind < 0.3 && rule
      ? await call('DELETE', `${rule.type === 'snat' ? SNAT : FORWARD}/${rule.id}`)
      : kind < 0.6
        ? await call('POST', FORWARD, { dest_ip: address(), dest_port, target_ip: address(), target_port })
        : await call('POST', SNAT, {
            source_cidr: `${address()}/${below(address === four ? 33 : 129)}`,
            interface: pick(['eth0', 'bond0.7', 'x']),
          })
  if (![200, 201, 409].includes(status) || text.includes('kernel')) throw new Error(`seed ${SEED}: ${status} ${text}`)
}

/** Everything in the table but what comes and goes by itself. */
const elements = (ns: Netns): string[] =>
  Array.from(
    ns
      .run('nft', 'list', 'table', 'inet', 'stratum')
      .matchAll(/^\t(?:set|map) (nat_\w+) \{[^}]*?elements = \{([^}]*)\}/gm),
    ([, name, inner = '']) => inner.split(',').map((text) => `${name} ${text.trim().replace(/\s+/g, ' ')}`),
  )
    .flat()
    .sort()

/** Beside the agent's own rendering: a block counts unless another one of its device holds it. */
function expected(rules: readonly NatRule[]): string[] {
  const family = (ip: string) => (ip.includes(':') ? 6 : 4)
  const bare = (cidr: string) => cidr.replace(/(?<=\..*)\/32$|(?<=:.*)\/128$/, '')
  return rules
    .flatMap((rule) => {
      if (rule.type === 'port_forward') {
        const key = `${rule.dest_ip} . ${rule.dest_port}`
        const ip = family(rule.source_ip)
        return [`nat_public${ip} ${key}`, `nat_forward${ip} ${key} : ${rule.source_ip} . ${rule.source_port}`]
      }
      const inner = rules.some(
        (it) => it !== rule && it.interface === rule.interface && holds(it.source_ip, rule.source_ip),
      )
      return inner ? [] : [`nat_snat${family(rule.source_ip)} "${rule.interface}" . ${bare(rule.source_ip)}`]
    })
    .sort()
}

function holds(outer: string, inner: string): boolean {
  const [a, b] = [bits(outer), bits(inner)]
  return outer.includes(':') === inner.includes(':') && b.startsWith(a)
}

/** The digits of a prefix, as many as it is long. */
function bits(cidr: string): string {
  const [address = '', length] = cidr.split('/')
  if (!address.includes(':')) {
    const digits = address.split('.').map((byte) => Number(byte).toString(2).padStart(8, '0'))
    return digits.join('').slice(0, Number(length))
  }
  const [head = '', tail] = address
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== '')) as unknown as [string[], string[] | undefined]
  const gap = tail === undefined ? [] : new Array<string>(8 - head.length - tail.length).fill('0')
  const groups = [...head, ...gap, ...(tail ?? [])]
  const digits = groups.map((group) => Number.parseInt(group, 16).toString(2).padStart(16, '0'))
  return digits.join('').slice(0, Number(length))
}

t.test(`the kernel holds what the store does (SEED=${SEED})`, async (t) => {
  const ns = netns(t, 'k')
  const agent = await startAgent(t, { ns, config: { api_rate_limit: '10000000' } })
  const rules = async () => (await agent.call('GET', SNAT)).body.nat_rules as NatRule[]
  for (let burst = 0; burst < BURSTS; burst++) {
    for (let at = 0; at < CHANGES; at++) await change(agent, await rules())
    t.same(elements(ns), expected(await rules()), `burst ${burst}`)
  }
  const before = await rules()
  t.ok(before.length > 20)
  await agent.kill('SIGKILL')
  await agent.restart()
  t.same(elements(ns), expected(before), 'after a kill')
  t.match((await agent.call('POST', '/control/v1/drift', { dry_run: true })).body, { status: 'clean' })
  t.equal(agent.logged.filter(({ msg }) => msg === 'kernel brought to the store').length, 1, 'at the first start only')
  for (const { id, type } of before) await agent.call('DELETE', `${type === 'snat' ? SNAT : FORWARD}/${id}`)
  t.same(elements(ns), [])
})
