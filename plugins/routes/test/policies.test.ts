/** Policy rules over REST, over a plane in memory. */
import t from 'tap'
import { RULES, routesArea } from './area.ts'

const FROM = { from: '10.20.0.0/16', table: 100 }
const EMPTY = { from: '', to: '', fwmark: 0, iif: '', oif: '' }

t.test('route-07 route-08 route-11 route-12 a rule is made, shown and removed', async (t) => {
  const { call, rules, held, events } = await routesArea(t)
  t.same(await rules(), [])
  const match = { from: '10.20.0.0/16', to: '192.0.2.7/32', fwmark: 16, iif: 'eth0', oif: 'eth1' }
  const made = await call('POST', RULES, { ...match, table: 100 })
  const rule = { id: 1, priority: 10_000, ...match, table: 100 }
  t.same([made.status, made.body], [201, { status: 'created', rule }])
  const words = 'from=10.20.0.0/16,to=192.0.2.7/32,fwmark=16,fwmask=4294967295,iif=eth0,oif=eth1'
  t.same(held(), [`routes/policy/10000/4/${words},table=100`])
  t.same(await rules(), [rule])
  const gone = await call('DELETE', `${RULES}/1`)
  t.same([gone.status, gone.body], [200, { status: 'deleted', id: 1 }])
  t.same([held(), await rules()], [[], []])
  for (const id of ['1', '0', 'x']) {
    const absent = await call('DELETE', `${RULES}/${id}`)
    t.same([absent.status, absent.body], [404, { error: `policy rule ${id} not found` }])
  }
  t.same(events(), ['policy_rule.created', 'policy_rule.deleted'])
})

t.test('D60 a rule without addresses is for both families, an address decides for one', async (t) => {
  const { call, held } = await routesArea(t)
  const families = async (fields: object) => {
    const { body } = await call('POST', RULES, { ...fields, table: 100 })
    const found = held().map((key) => key.split('/')[3])
    await call('DELETE', `${RULES}/${(body.rule as { id: number }).id}`)
    return found.join()
  }
  for (const fields of [{ fwmark: 1 }, { iif: 'lo' }, { oif: 'eth0' }]) t.equal(await families(fields), '4,6')
  for (const fields of [{ from: '10.0.0.0/8' }, { to: '0.0.0.0/0' }, { fwmark: 1, from: '0.0.0.0/0' }]) {
    t.equal(await families(fields), '4')
  }
  for (const fields of [{ from: 'fd00::/8' }, { to: '::/0', iif: 'lo' }]) t.equal(await families(fields), '6')
})

t.test('route-11 D60 the priority is the lowest free from 10000, and the list is in its order', async (t) => {
  const { call, rules } = await routesArea(t)
  const add = async (fields: object) => {
    const { body } = await call('POST', RULES, { ...FROM, ...fields })
    return (body.rule as { priority: number }).priority
  }
  t.same([await add({}), await add({}), await add({})], [10_000, 10_001, 10_002])
  await call('DELETE', `${RULES}/2`)
  t.equal(await add({}), 10_001)
  t.same(
    [await add({ priority: 10_003 }), await add({ priority: 0 }), await add({ priority: 1_000_000 })],
    [10_003, 0, 1_000_000],
  )
  t.equal(await add({}), 10_004)
  t.same(
    ((await rules()) as { priority: number }[]).map(({ priority }) => priority),
    [0, 10_000, 10_001, 10_002, 10_003, 10_004, 1_000_000],
  )
})

t.test('D8 what would be the same rule in the kernel is one already', async (t) => {
  const { call } = await routesArea(t)
  const at = { priority: 5, table: 100 }
  const add = (fields: object) => call('POST', RULES, { ...at, ...fields })
  t.equal((await add({ fwmark: 1 })).status, 201)
  const again = await add({ ...EMPTY, fwmark: 1 })
  const error = 'policy rule 1 with this priority, match and table already exists'
  t.same([again.status, again.body], [409, { error }])
  t.equal((await add({ fwmark: 1, from: '0.0.0.0/0' })).status, 409, 'the IPv4 half of it')
  t.equal((await add({ fwmark: 1, to: '::/0' })).status, 409)
  for (const other of [
    { fwmark: 2 },
    { fwmark: 1, iif: 'lo' },
    { fwmark: 1, table: 101 },
    { fwmark: 1, priority: 6 },
  ]) {
    t.equal((await add(other)).status, 201, JSON.stringify(other))
  }
})

t.test('route-09 route-10 what is no rule is refused, says why and stores nothing', async (t) => {
  const { call, rules, held } = await routesArea(t)
  const cases: [object, RegExp][] = [
    [{ from: '10.0.0.0/8' }, /^table/],
    [{ ...FROM, table: 0 }, /^table/],
    [{ ...FROM, table: -1 }, /^table/],
    [{ ...FROM, table: '100' }, /^table/],
    [{ ...FROM, table: 4294967296 }, /^table/],
    [{ ...FROM, table: 255 }, /^table: 255 is the kernel's own/],
    [{ ...FROM, table: 253 }, /^table: 253 is the kernel's own/],
    [{ table: 100 }, /^from, to, fwmark, iif, oif: at least one is required$/],
    [{ ...EMPTY, table: 100, priority: 5 }, /^from, to, fwmark, iif, oif: at least one is required$/],
    [{ ...FROM, from: '10.20.0.0' }, /^from: not a CIDR/],
    [{ ...FROM, from: '10.20.0.1/16' }, /^from: has host bits set: the block is 10\.20\.0\.0\/16$/],
    [{ ...FROM, to: 'all' }, /^to: not a CIDR/],
    [{ ...FROM, to: 'fd00::/8' }, /^from, to: must be of the same address family$/],
    [{ ...FROM, priority: -1 }, /^priority/],
    [{ ...FROM, priority: 1_000_001 }, /^priority/],
    [{ ...FROM, fwmark: -1 }, /^fwmark/],
    [{ ...FROM, fwmark: '0x10' }, /^fwmark/],
    [{ ...FROM, fwmark: 4294967296 }, /^fwmark/],
    [{ ...FROM, iif: 'a/b' }, /^iif/],
    [{ ...FROM, oif: 'sixteen-letters-' }, /^oif/],
  ]
  for (const [body, why] of cases) {
    const answer = await call('POST', RULES, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, why)
  }
  t.same([await rules(), held()], [[], []])
})

t.test('the marks of workload frames are not for rules, all others are', async (t) => {
  const { call } = await routesArea(t)
  const status = async (fwmark: number) => (await call('POST', RULES, { fwmark, table: 100 })).status
  for (const mark of [0x53000000, 0x53000001, 0x53800000, 0x53ffffff]) t.equal(await status(mark), 400, `${mark}`)
  for (const mark of [1, 0x52ffffff, 0x54000000, 0xd3000000, 0xffffffff]) t.equal(await status(mark), 201, `${mark}`)
})

t.test('254 is main: looked up early for what shall not go on to another rule', async (t) => {
  const { call, held } = await routesArea(t)
  const { body } = await call('POST', RULES, { to: '10.0.0.0/8', table: 254 })
  t.match(body, { rule: { table: 254 } })
  t.same(held(), ['routes/policy/10000/4/to=10.0.0.0/8,table=254'])
})
