/** After any sequence of changes, some refused by the kernel: the plane, a full rendering and a plain model agree. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { ROUTES, RULES, routesArea } from './area.ts'

const area = await routesArea(t)

interface Thing {
  id: number
  path: string
  /** What the kernel would tell it apart by, by the specification once more. */
  places: string[]
}
type Input = Record<string, string | number>
interface Change {
  path: string
  input: Input
  /** In place of a creation: the one to delete, by its position. */
  victim: number | undefined
  refuse: boolean
}

const few = <T>(...values: T[]) => fc.option(fc.constantFrom(...values), { nil: undefined })
const given = (fields: Record<string, unknown>): Input =>
  // What is left are strings and numbers.
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Input

const route = fc
  .record({
    destination: fc.constantFrom('0.0.0.0/0', '10.0.0.0/8', '10.1.2.3/32', '::/0', 'fd00::/64'),
    interface: fc.constantFrom('eth0', 'eth1'),
    metric: few(0, 1, 1024),
    table: few(0, 254, 100),
  })
  .map(given)
const rule = fc
  .record({
    from: few('10.0.0.0/8', '0.0.0.0/0', 'fd00::/8'),
    to: few('192.0.2.0/24', '::/0'),
    fwmark: few(0, 1, 0xffffffff),
    iif: few('lo', 'eth0'),
    priority: few(0, 10_000, 10_001),
    table: fc.constantFrom(100, 254),
  })
  .map(given)
const change: fc.Arbitrary<Change> = fc
  .tuple(
    fc.oneof(
      route.map((input) => ({ path: ROUTES, input })),
      rule.map((input) => ({ path: RULES, input })),
    ),
    // More is made than deleted, so that there is much at times.
    fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, fc.nat(50)),
    fc.nat(5).map((n) => n === 0),
  )
  .map(([creation, victim, refuse]) => ({ ...creation, victim, refuse }))

const isSix = (...texts: (string | number | undefined)[]) => texts.some((text) => String(text ?? '').includes(':'))

function routePlaces({ destination, metric, table }: Input): string[] {
  const counted = isSix(destination) ? metric || 1024 : (metric ?? 0)
  return [`route/${table || 254}/${destination}/${counted}`]
}

/** Undefined for what is no rule. */
function rulePlaces({ from = '', to = '', fwmark = 0, iif = '', table = 0 }: Input, priority: number) {
  const [six, four] = [isSix(from, to), [from, to].some((text) => String(text).includes('.'))]
  if ((six && four) || (!from && !to && !fwmark && !iif)) return undefined
  const families = six ? [6] : four ? [4] : [4, 6]
  const one = (text: string | number) => (String(text).endsWith('/0') ? '' : text)
  return families.map((family) => `rule/${[priority, family, one(from), one(to), fwmark, iif, table].join()}`)
}

function freePriority(things: readonly Thing[]): number {
  const taken = new Set(things.flatMap(({ places }) => places.map((place) => Number(place.split(/[/,]/)[1]))))
  for (let priority = 10_000; ; priority++) if (!taken.has(priority)) return priority
}

/** The status that the specification asks for, and what there is afterwards. */
async function carryOut(things: Thing[], { path, input, victim, refuse }: Change): Promise<void> {
  area.plane.refuse = refuse ? new KernelRefusal('made up') : undefined
  const doomed = victim === undefined || things.length === 0 ? undefined : things[victim % things.length]
  if (doomed) {
    const { status } = await area.call('DELETE', `${doomed.path}/${doomed.id}`)
    equal(status, refuse ? 409 : 200, 'deletion')
    if (!refuse) things.splice(things.indexOf(doomed), 1)
    return
  }
  const priority = Number(input.priority ?? freePriority(things.filter((thing) => thing.path === RULES)))
  const places = path === ROUTES ? routePlaces(input) : rulePlaces(input, priority)
  const known = new Set(things.flatMap((thing) => thing.places))
  const wanted = !places ? 400 : places.some((place) => known.has(place)) ? 409 : refuse ? 400 : 201
  const { status, body } = await area.call('POST', path, input)
  equal(status, wanted, `creation of ${JSON.stringify(input)}`)
  if (status !== 201) return
  const { id } = (body.route ?? body.rule) as { id: number }
  things.push({ id, path, places: places ?? [] })
}

/** fast-check shrinks on what is thrown. */
function equal(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
  if (left !== right) throw new Error(`${what}: ${left} is not ${right}`)
}

async function agrees(things: readonly Thing[]): Promise<void> {
  const { agent, plane } = area
  const rendered = [...desired.all(agent.store.read, agent.config)]
  const byKey = (entries: Iterable<{ key: string }>) => [...entries].sort((a, b) => (a.key < b.key ? -1 : 1))
  equal(byKey(plane.entries.values()), byKey(rendered), 'the plane is a full rendering')
  equal(rendered.length, things.flatMap(({ places }) => places).length, 'entries of the model')
  for (const [path, key] of [
    [ROUTES, 'routes'],
    [RULES, 'rules'],
  ] as const) {
    const listed = (await area.call('GET', path)).body[key] as { id: number }[]
    const ids = things.filter((thing) => thing.path === path).map(({ id }) => id)
    equal(listed.map(({ id }) => id).sort(), ids.sort(), `list of ${key}`)
  }
}

t.test('any sequence of changes: plane = full rendering = model', async (t) => {
  const outcomes = { made: 0, most: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 25, size: 'max' }), async (changes) => {
      const things: Thing[] = []
      for (const one of changes) await carryOut(things, one)
      area.plane.refuse = undefined
      outcomes.made += things.length
      outcomes.most = Math.max(outcomes.most, things.length)
      await agrees(things)
      for (const { path, id } of things) await area.call('DELETE', `${path}/${id}`)
      equal(area.held(), [], 'nothing is left')
    }),
    { numRuns: 100 },
  )
  t.ok(outcomes.made > 40 && outcomes.most > 5, `control: ${JSON.stringify(outcomes)}`)
})
