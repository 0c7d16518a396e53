/** Random changes and kills on the real kernel: what iproute2 shows is what REST lists. SEED repeats a run. */
import t from 'tap'
import { chance } from '../../../test/chance.ts'
import { requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import type { Route, Rule } from '../schemas.ts'
import { ROUTES, RULES } from './area.ts'
import { type Site, site } from './site.ts'

requireRoot(t)

const CHANGES = 150
const KILL_EVERY = 50

/** A single host is printed without its length. */
const bare = (prefix: string) => prefix.replace(/^([\d.]+)\/32$/, '$1')

/** As iproute2 prints it. */
function routeLine({ destination, gateway, interface: link, metric, table }: Route): string {
  const six = destination.includes(':')
  const whole = bare(destination).replace(/^(0\.0\.0\.0|::)\/0$/, 'default')
  const out = link || (/^(10\.1\.1|fd01:1):?/.test(gateway) ? 'up1' : 'up2')
  return [
    whole,
    gateway && `via ${gateway}`,
    `dev ${out}`,
    table > 0 && `table ${table}`,
    !six && !gateway && 'scope link',
    metric > 0 && `metric ${metric}`,
  ]
    .filter(Boolean)
    .join(' ')
}

function ruleLines({ priority, from, to, fwmark, iif, oif, table }: Rule): string[] {
  const families = !from && !to ? ['-4', '-6'] : [`${from}${to}`.includes(':') ? '-6' : '-4']
  const line = [
    `${priority}: from ${from || 'all'}`,
    to && `to ${bare(to)}`,
    fwmark > 0 && `fwmark 0x${fwmark.toString(16)}`,
    iif && `iif ${iif}`,
    oif && `oif ${oif}`,
    `lookup ${table === 254 ? 'main' : table}`,
  ]
  return families.map((family) => `${family} ${line.filter(Boolean).join(' ')}`)
}

async function lists({ agent }: Site): Promise<{ routes: Route[]; rules: Rule[] }> {
  const [routes, rules] = [(await agent.call('GET', ROUTES)).body, (await agent.call('GET', RULES)).body]
  // What these two answer.
  return { ...routes, ...rules } as { routes: Route[]; rules: Rule[] }
}

t.test('route-01 route-07 the kernel holds what is listed, whatever was changed and killed', async (t) => {
  const place = await site(t)
  const { agent, kernel } = place
  const roll = chance(SEED)
  const one = <T>(...values: T[]): T => values[Math.floor(roll() * values.length)] as T
  const anyRoute = () => {
    const [destination, gateway] = one<[string, () => string]>(
      ['0.0.0.0/0', () => one('10.1.1.2', '10.1.2.2')],
      ['10.64.0.0/10', () => one('10.1.1.2', '10.1.2.2', '')],
      ['192.0.2.7/32', () => one('10.1.1.2', '10.1.2.2', '', '203.0.113.1')],
      ['::/0', () => one('fd01:1::2', 'fd01:2::2')],
      ['fd64::/64', () => one('fd01:1::2', 'fd01:2::2', '')],
    )
    const by = gateway()
    return { destination, gateway: by, metric: one(0, 1, 1024), table: one(0, 100, 70_000), interface: by ? '' : 'up2' }
  }
  const anyRule = () => ({
    ...one<object>({}, { from: '10.64.0.0/10' }, { to: '192.0.2.7/32' }, { from: 'fd64::/64', to: 'fd65::/64' }),
    ...one<object>({ fwmark: 7 }, { fwmark: 0xffffffff }, { iif: 'cl' }, { oif: 'up9' }, { iif: 'lo', fwmark: 7 }),
    ...one<object>({}, { priority: 9 }, { priority: 40_000 }),
    table: one(100, 254, 70_000),
  })
  const agrees = async (what: string) => {
    const { routes, rules } = await lists(place)
    const wanted = { routes: routes.map(routeLine).sort(), rules: rules.flatMap(ruleLines).sort() }
    t.same(kernel(), wanted, `${what} (SEED=${SEED})`)
  }
  const seen = new Map<string, number>()
  for (let n = 1; n <= CHANGES; n++) {
    const [path, body] = one<[string, object]>([ROUTES, anyRoute()], [RULES, anyRule()])
    const { routes, rules } = await lists(place)
    const victim = one(...(path === ROUTES ? routes : rules))
    const deletes = victim !== undefined && roll() < 0.4
    const answer = deletes ? await agent.call('DELETE', `${path}/${victim.id}`) : await agent.call('POST', path, body)
    const outcome = `${deletes ? 'DELETE' : 'POST'} ${answer.status}`
    seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
    if (n % KILL_EVERY !== 0) continue
    await agrees(`after ${n} changes`)
    await agent.kill('SIGKILL')
    await agent.restart()
    await agrees(`after kill ${n / KILL_EVERY}`)
  }
  t.same([...seen.keys()].sort(), ['DELETE 200', 'POST 201', 'POST 400', 'POST 409'], `control (SEED=${SEED})`)
  const { routes, rules } = await lists(place)
  for (const { id } of routes) await agent.call('DELETE', `${ROUTES}/${id}`)
  for (const { id } of rules) await agent.call('DELETE', `${RULES}/${id}`)
  t.same(kernel(), { routes: [], rules: [] })
})
