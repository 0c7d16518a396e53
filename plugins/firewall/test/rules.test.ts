import t from 'tap'
import { linear } from '../linear.ts'
import { everyRule } from '../queries.ts'
import { createRule, deleteRule, readInput, replaceRule, scheduleRule, setDefault } from '../rules.ts'
import { config, database } from './database.ts'

const MAX = { rules: 100 }
const touchedRules = (refs: readonly { id: string }[]) =>
  refs.map(({ id }) => id).filter((id) => id.startsWith('rule/'))

t.test('fw-03 fw-29 fw-35 each change touches exactly the rules that it changes', async (t) => {
  const db = database(t)
  const created = createRule(db, { action: 'accept' }, MAX)
  t.same(touchedRules(created.touch), ['rule/1'])
  const replaced = replaceRule(db, '1', { action: 'drop' })
  t.same(touchedRules(replaced.touch).sort(), ['rule/1', 'rule/2'])
  t.match(replaced.events, [{ type: 'rule.updated', resource: '/api/v1/rules/2', data: { id: 2, replaces: 1 } }])
  const scheduled = scheduleRule(db, '2', { from: '08:00', to: '09:00', daily: true })
  t.same(touchedRules(scheduled.touch), ['rule/2'])
  t.same(touchedRules(deleteRule(db, '2').touch), ['rule/2'])
  t.same([...everyRule(db)], [])
  const changed = setDefault(db, 'deny')
  t.ok(changed.touch.some(({ id }) => id === 'default'))
  t.match(changed.events, [{ type: 'default_action.updated', data: { from: 'allow', default_action: 'deny' } }])
})

t.test('fw-32 fw-35 D70 an unknown id is 404 for every change', async (t) => {
  const db = database(t)
  for (const change of [
    () => replaceRule(db, '1', { action: 'drop' }),
    () => deleteRule(db, '1'),
    () => scheduleRule(db, '1', undefined),
  ]) {
    t.throws(change, { message: 'rule 1 not found' })
  }
})

t.test('D66 fw-34 a line of replacements keeps place and schedule', async (t) => {
  const db = database(t)
  for (let at = 0; at < 3; at++) createRule(db, { action: 'drop' }, MAX)
  const schedule = scheduleRule(db, '2', { from: '08:00', to: '09:00', daily: true }).result
  replaceRule(db, '2', { action: 'accept' })
  replaceRule(db, '4', { action: 'drop', priority: 3 })
  const row = [...everyRule(db)].find(({ id }) => id === 5)
  t.match(row, { tie: 2, priority: 3, scheduleFrom: schedule.scheduleFrom, scheduleTo: schedule.scheduleTo })
})

t.test('D20 the limit is asked before anything is written', async (t) => {
  const db = database(t)
  createRule(db, { action: 'drop' }, { rules: 1 })
  t.throws(() => createRule(db, { action: 'drop' }, { rules: 1 }), { message: 'limit reached: rules (1)' })
  t.equal([...everyRule(db)].length, 1)
  replaceRule(db, '1', { action: 'accept' })
  deleteRule(db, '2')
  createRule(db, { action: 'drop' }, { rules: 1 })
})

t.test('readInput names the field that is wrong', async (t) => {
  const cases: [object, RegExp][] = [
    [{ source_ip: 'x' }, /^source_ip: /],
    [{ dest_ip: '1.2.3.4/40' }, /^dest_ip: /],
    [{ source_ip: '1.2.3.4', dest_ip: '::1' }, /^source_ip, dest_ip: /],
    [{ mac: 'x' }, /^mac: /],
    [{ dest_port_max: 1 }, /^dest_port_max: /],
    [{ dest_port: 2, dest_port_max: 1 }, /^dest_port_max: /],
    [{ protocol: 'icmp', dest_port: 1 }, /^protocol: /],
    [{ protocol: 'icmp', dest_ip: '::1' }, /^protocol: /],
    [{ stateful: false }, /^stateful: /],
  ]
  for (const [fields, message] of cases) {
    t.throws(() => readInput({ action: 'drop', ...fields }), { message }, JSON.stringify(fields))
  }
})

t.test(
  'D71 what the default deny renders: literal without the failsafes, and always with drop at the end',
  async (t) => {
    const db = database(t)
    const lines = (failsafe: boolean, allowed?: string[]) =>
      linear
        .one(db, 'default', config(failsafe, allowed))
        .flatMap((entry) => (entry.kind === 'chain' ? entry.rules : []))
    t.same(lines(true), [], 'allow renders nothing')
    setDefault(db, 'deny')
    t.same(lines(false), ['drop'])
    t.equal(lines(true).at(-1), 'drop')
    const api = (allowed: string[]) => lines(true, allowed).filter((line) => line.includes('7070'))
    t.equal(api([]).length, 1)
    const listed = api(['10.0.0.7/24', 'fd00::1'])
    t.equal(listed.length, 2)
    t.match(listed[0], /^ip saddr 10\.0\.0\.0\/24 /)
    t.match(listed[1], /^ip6 saddr fd00::1 /)
    t.ok(
      [...api([]), ...listed].every((line) => line.includes('fib daddr type local')),
      'only the node itself is spared',
    )
  },
)

t.test('desired.one agrees with desired.all, and every text is of harmless characters', async (t) => {
  const db = database(t)
  const inputs = [
    { action: 'drop' as const, source_ip: 'fd00::/8', mac: 'AA-BB-CC-00-11-22', comment: '"; flush ruleset; "' },
    { action: 'accept' as const, protocol: 'tcp' as const, dest_port: 1, dest_port_max: 9, interface: 'eth0.1' },
    { action: 'drop' as const, source_port: 53, level: 'flow' as const, priority: 9 },
    { action: 'accept' as const, protocol: 'icmp' as const, dest_ip: '10.0.0.0/8' },
  ]
  for (const body of inputs) createRule(db, body, MAX)
  scheduleRule(db, '3', { from: '2030-01-01T00:00:00Z', to: '2031-01-01T00:00:00Z' })
  setDefault(db, 'deny')
  const all = new Map(Array.from(linear.all(db, config(true)), (entry) => [entry.key, entry]))
  const refs = ['default', ...inputs.map((_, at) => `rule/${at + 1}`)]
  const ones = refs.flatMap((ref) => linear.one(db, ref, config(true)))
  t.equal(ones.length, refs.length)
  for (const entry of ones) t.same(entry, all.get(entry.key), entry.key)
  const texts = [...all.values()].flatMap((entry) => (entry.kind === 'rule' ? [entry.text] : []))
  t.equal(texts.length, inputs.length)
  for (const text of texts) t.match(text, /^[A-Za-z0-9 .:,/{}"@_-]+$/)
  t.same(linear.one(db, 'rule/99', config(true)), [], 'an unknown rule has no entry')
})
