/** After any sequence of changes: what the plane was told step by step is what rendering everything at once would give. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { type Firewall, firewall } from './area.ts'
import { type Change, carryOut, change, type Model } from './changes.ts'
import { LANES } from './lane.ts'
import { inOrder, input, shown } from './model.ts'

/** The place of the classifier and that of nft: what is rendered is another thing, the property the same. */
const areas = { classifier: await firewall(t, { lane: 'classifier' }), nft: await firewall(t) }

/** Both sides at a moment at which no change is under way. */
const compared = ({ agent, plane }: Firewall) =>
  agent.pipeline.exclusively(async () => ({
    incremental: byKey([...plane.entries.values()]),
    rendered: byKey([...desired(plane.kinds).all(agent.store.read, agent.config)]),
  }))
const byKey = <T extends { key: string }>(entries: T[]) => entries.sort((a, b) => (a.key < b.key ? -1 : 1))

async function agrees(area: Firewall, model: Model): Promise<void> {
  const { incremental, rendered } = await compared(area)
  same(incremental, rendered, 'the plane and a full rendering')
  const order = inOrder(model.rules)
  same(
    [...area.planned(), ...area.filters()].map(({ key }) => key),
    order.map(({ id }) => (area === areas.nft ? `firewall/${id}` : `firewall/filter/${id}`)),
    'the order of the rules',
  )
  same(await area.rules(), order.map(shown), 'what REST shows, in the order in which packets meet the rules')
  const { body: control } = await area.control('GET', '/control/v1/firewall/rules')
  const scheduled = order.map((rule) => ({
    ...shown(rule),
    ...(rule.window && { schedule: { daily: false, ...rule.window } }),
  }))
  same(control.rules, scheduled, 'what the CLI shows')
  const { body } = await area.call('GET', '/api/v1/rules/default')
  same(body, { default_action: model.deny ? 'deny' : 'allow' }, 'the default action')
}

/** fast-check shrinks on what is thrown. */
function same(a: unknown, b: unknown, what: string): void {
  const sorted = (_key: string, value: unknown) =>
    value && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1)))
      : value
  const [left, right] = [JSON.stringify(a, sorted), JSON.stringify(b, sorted)]
  if (left !== right) throw new Error(`${what} differ:\n${left}\n${right}`)
}

async function cleared(area: Firewall): Promise<Model> {
  for (const { id } of await area.rules()) await area.call('DELETE', `/api/v1/rules/${id}`)
  await area.call('PUT', '/api/v1/rules/default', { default_action: 'allow' })
  return { rules: [], deny: false }
}

for (const lane of LANES) {
  const area = areas[lane]
  t.test(`any sequence of changes: incremental state = full rendering = model (${lane})`, async (t) => {
    const kinds = new Set<Change['kind']>()
    await fc.assert(
      fc.asyncProperty(fc.array(change(40), { maxLength: 20, size: 'max' }), async (changes) => {
        const model = await cleared(area)
        for (const one of changes) {
          kinds.add(one.kind)
          await carryOut(model, one, area)
        }
        await agrees(area, model)
      }),
      { numRuns: 40 },
    )
    t.equal(kinds.size, 7, 'control: changes of every kind were made')
  })

  t.test(`any sequence of changes of which the kernel refuses some: those never were (${lane})`, async () => {
    const refusable = change(5).filter(({ kind }) => kind !== 'invalid')
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(refusable, fc.boolean()), { maxLength: 12 }), async (steps) => {
        const model = await cleared(area)
        for (const [one, refuse] of steps) {
          if (refuse) area.plane.refuse = new KernelRefusal('made up')
          // Whether it reaches the kernel at all depends on the change; only a 409 counts as refused.
          const before = structuredClone(model)
          await carryOut(model, one, area).catch((error: unknown) => {
            if (!refuse || !String(error).includes(': 409 ')) throw error
            Object.assign(model, before)
          })
          area.plane.refuse = undefined
        }
        await agrees(area, model)
      }),
      { numRuns: 30 },
    )
  })

  t.test(`deleting everything leaves nothing in the plane (${lane})`, async (t) => {
    await cleared(area)
    const { incremental, rendered } = await compared(area)
    t.same(incremental, rendered)
    t.same(
      incremental.filter(({ kind }) => kind === 'rule' || kind === 'filter'),
      [],
    )
  })
}

const area = areas.nft
t.test('conv-21 err-10 whatever stands in a field, the answer is 201 or 400 and an error says why', async (t) => {
  await cleared(area)
  const key = fc.constantFrom(
    ...['action', 'priority', 'protocol', 'source_ip', 'dest_ip', 'source_port', 'dest_port', 'dest_port_max'],
    ...['interface', 'mac', 'level', 'comment', 'chain', 'stateful', 'other'],
  )
  const text = fc.constantFrom(
    '',
    '0',
    '::',
    '1.1.1.1/0',
    'tcp',
    '"',
    '\\',
    '\u0000',
    '; drop',
    '{ }',
    'eth0',
    'global',
  )
  const value = fc.oneof(fc.jsonValue({ maxDepth: 1 }), text, fc.string({ maxLength: 20 }), fc.integer())
  const statuses = new Set<number>()
  await fc.assert(
    fc.asyncProperty(input, key, value, async (valid, field, junk) => {
      const { status, body } = await area.call('POST', '/api/v1/rules', { ...valid, [field]: junk })
      statuses.add(status)
      if (status === 201) {
        const { id } = body.rule as { id: number }
        same((await area.call('GET', `/api/v1/rules/${id}`)).body, body.rule, 'answer and reading')
        await area.call('DELETE', `/api/v1/rules/${id}`)
        return true
      }
      return status === 400 && typeof body.error === 'string' && body.error !== ''
    }),
    { numRuns: 300 },
  )
  t.same([...statuses].sort(), [201, 400], 'control: some were good and some bad')
  t.same(await area.rules(), [])
})
