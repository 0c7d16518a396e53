/** What somebody else does to the table, seen and repaired by the driver, in a network namespace of its own. */
import { execFileSync } from 'node:child_process'
import t, { type Test } from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { type Entry, isFrame, passages } from '../../entry.ts'
import { nftDriver } from '../driver.ts'
import { openGeneration } from '../generation.ts'
import { openNft } from '../session.ts'

if (requireRoot(t) && here !== undefined) run()

function run() {
  const nft = (script: string) =>
    execFileSync('nft', ['-f', '-'], { input: `${script}\n`, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] })
  const table = () => nft('list table inet stratum').replaceAll(/packets \d+ bytes \d+/g, '')
  const skeleton = {
    area: 'x',
    text: `
add set inet stratum x_protocols { type inet_proto; elements = { tcp, udp }; }
add set inet stratum x_open { type ipv4_addr; }
add map inet stratum x_to { type inet_service : ipv4_addr; }
add set inet stratum x_gone { type ipv4_addr; flags timeout; timeout 1h; }
add chain inet stratum x_list
add chain inet stratum x_end
add chain inet stratum x_fixed
flush chain inet stratum x_fixed
add rule inet stratum x_fixed counter ip saddr @x_open accept
add chain inet stratum x { type filter hook input priority -10; policy accept; }
`,
    lists: ['x_list'],
    chains: ['x', 'x_end'],
    sets: ['x_open', 'x_to'],
  }
  const rules = (count: number): Entry[] =>
    Array.from({ length: count }, (_, n) => ({
      kind: 'rule',
      key: `x/${n + 1}`,
      list: 'x_list',
      rank: [0, n + 1],
      // The kernel spells the second text its own way.
      text: n % 2 === 0 ? `tcp dport ${n + 1} accept` : `tcp flags & (syn | ack) != syn tcp dport ${n + 1} drop`,
    }))
  const chain = (name: string, ...texts: string[]): Entry => ({
    kind: 'chain',
    key: `x/${name}`,
    chain: name,
    rules: texts,
  })
  const element = (set: string, text: string, value?: string): Entry => ({
    kind: 'element',
    key: `x/${set}/${text}`,
    set,
    element: text,
    ...(value !== undefined && { value }),
  })
  const wanted = (count: number): Entry[] => [
    chain('x', 'meta l4proto @x_protocols jump x_list', 'jump x_end'),
    chain('x_end', 'ct state new tcp flags & (syn | ack) != syn drop', 'accept'),
    element('x_open', '192.0.2.1'),
    element('x_to', '80', '192.0.2.2'),
    ...rules(count),
  ]

  async function open(t: Test, desired: readonly Entry[]) {
    const driver = nftDriver(await openNft(), [skeleton], openGeneration())
    t.teardown(async () => {
      await driver.close()
      nft('delete table inet stratum')
    })
    /** Keys and what was wrong with them, as `pass` finds and repairs it. */
    const pass = async () => {
      const diff = passages(await driver.observe(desired), desired)
      if (diff.length > 0) await driver.apply(diff)
      return diff.map(({ before, after }) => {
        const state = before && (after || isFrame(before)) ? 'changed' : after ? 'missing' : 'foreign'
        return `${(after ?? before)?.key} ${state}`
      })
    }
    t.ok((await pass()).length > 0, 'all is written')
    t.same(await pass(), [], 'and holds')
    return { driver, pass, whole: table() }
  }

  t.test('whatever of ours is changed is found under its name, and one pass makes it good', async (t) => {
    const { driver, pass, whole } = await open(t, wanted(100))
    const leaf = () => /jump (x_list_\d+)/.exec(table())?.[1] ?? ''
    const second = () => {
      const listed = execFileSync('nft', ['-a', 'list', 'chain', 'inet', 'stratum', leaf()], { encoding: 'utf8' })
      return `${leaf()} handle ${/"x\/2 .*# handle (\d+)/.exec(listed)?.[1]}`
    }
    const mark = (key: string) => new RegExp(`comment "(${key} [^"]*)"`).exec(whole)?.[1]
    const meddling: [string, string | (() => string), string[]][] = [
      ['an element is deleted', 'delete element inet stratum x_open { 192.0.2.1 }', ['x/x_open/192.0.2.1 missing']],
      ['an element is added', 'add element inet stratum x_open { 192.0.2.9 }', ['x/x_open/192.0.2.9 foreign']],
      [
        'the value of an element is another',
        'delete element inet stratum x_to { 80 }; add element inet stratum x_to { 80 : 192.0.2.3 }',
        ['x/x_to/80 changed'],
      ],
      ['a rule is deleted', () => `delete rule inet stratum ${second()}`, ['x/2 missing']],
      ['a foreign rule stands among ours', () => `add rule inet stratum ${leaf()} drop`, ['x/x_list changed']],
      ['a foreign rule stands before all', 'insert rule inet stratum x_list tcp dport 22 drop', ['x/x_list changed']],
      [
        'a rule is another under the same comment',
        () => `replace rule inet stratum ${second()} tcp dport 2 accept comment "${mark('x/2')}"`,
        ['x/2 changed'],
      ],
      ['a small chain has a rule more', 'add rule inet stratum x_end drop', ['x/x_end changed']],
      [
        'a small chain says something else under the same comments',
        `flush chain inet stratum x_end; add rule inet stratum x_end drop comment "${mark('x/x_end')?.replace('1/2', '1/1')}"`,
        ['x/x_end changed'],
      ],
      ['a base chain is flushed', 'flush chain inet stratum x', ['x/x missing']],
      ['a policy is changed', 'add chain inet stratum x { policy drop; }', ['x/skeleton changed']],
      ['the table sleeps', 'add table inet stratum { flags dormant; }', ['x/skeleton changed']],
      ['a fixed set lacks an element', 'delete element inet stratum x_protocols { udp }', ['x/skeleton changed']],
      ['a fixed set has one more', 'add element inet stratum x_protocols { sctp }', ['x/skeleton changed']],
      ['a fixed chain has a rule more', 'add rule inet stratum x_fixed drop', ['x/skeleton changed']],
      ['a set that no rule names is deleted', 'delete set inet stratum x_gone', ['x/skeleton changed']],
      ['the record is deleted', `flush chain inet stratum ${/skeleton_\w+/.exec(whole)?.[0]}`, ['x/skeleton changed']],
      [
        'a base chain stands at another priority',
        'flush chain inet stratum x; delete chain inet stratum x; add chain inet stratum x { type filter hook input priority 5; }',
        ['x/x missing', 'x/skeleton changed'],
      ],
    ]
    for (const [what, script, found] of meddling) {
      t.notOk(await driver.changedByOthers?.(), 'control: nobody was here')
      nft(typeof script === 'string' ? script : script())
      t.ok(await driver.changedByOthers?.(), `${what}: somebody was here`)
      t.same(await pass(), found, what)
      t.equal(await driver.changedByOthers?.(), false, `${what}: our own repair is no change by others`)
      t.same(await pass(), [], `${what}: good again`)
      t.equal(sorted(table()), sorted(whole), `${what}: as it was`)
    }
    nft('delete table inet stratum')
    t.equal((await pass()).length, wanted(100).length + 1, 'the whole table is gone')
    t.equal(sorted(table()), sorted(whole), 'and back, in one transaction')
    nft('flush ruleset')
    t.ok(await driver.changedByOthers?.())
    await pass()
    t.equal(sorted(table()), sorted(whole), 'also after a flush of everything')
  })

  t.test('an observation changes nothing, and what is not ours in the table is left alone', async (t) => {
    const { driver, pass } = await open(t, wanted(3))
    nft(`add set inet stratum theirs { type ipv4_addr; elements = { 192.0.2.7 } }
add chain inet stratum visitors { type filter hook forward priority 7; policy accept; }
add rule inet stratum visitors ip saddr @theirs counter drop comment "theirs"
add table inet other
add chain inet other x_list
add rule inet other x_list drop`)
    nft('delete element inet stratum x_open { 192.0.2.1 }')
    const before = nft('list ruleset')
    await driver.observe()
    t.equal(nft('list ruleset'), before)
    t.same(await pass(), ['x/x_open/192.0.2.1 missing'])
    const after = nft('list ruleset')
    for (const part of [
      /\tset theirs \{[\s\S]*?\n\t\}/,
      /\tchain visitors \{[\s\S]*?\n\t\}/,
      /table inet other \{[\s\S]*\n\}/,
    ]) {
      t.ok(part.exec(before))
      t.equal(part.exec(after)?.[0], part.exec(before)?.[0])
    }
    nft('delete table inet other')
  })

  t.test('the kernel has lost the table: nothing is made of it until something is applied', async (t) => {
    const { driver, pass } = await open(t, wanted(3))
    nft('delete table inet stratum')
    await driver.observe()
    t.notMatch(nft('list tables'), /stratum/)
    await pass()
    t.match(nft('list tables'), /stratum/)
  })

  t.test('a rule that is another under its comment is found at first sight, also by the next agent', async (t) => {
    const { pass, whole } = await open(t, wanted(40))
    // 40 rules in two leaves; one that the kernel lists as we write it, one that it spells its own way, and a small chain.
    const edited = (text: string) =>
      text
        .replace('tcp dport 1 accept', 'tcp dport 1 drop')
        .replace(/tcp flags \S.* tcp dport 2 drop/, 'tcp dport 2 drop')
        .replace(/ct state new tcp flags .* drop comment "x\/x_end/, 'ct state new drop comment "x/x_end')
    t.not(edited(whole), whole)
    nft(
      `delete table inet stratum; ${edited(execFileSync('nft', ['-s', 'list', 'table', 'inet', 'stratum'], { encoding: 'utf8' }))}`,
    )
    const next = nftDriver(await openNft(), [skeleton], openGeneration())
    t.teardown(() => next.close())
    const keys = async () => passages(await next.observe(wanted(40)), wanted(40)).map(({ after }) => after?.key)
    t.same((await keys()).sort(), ['x/1', 'x/2', 'x/x_end'])
    t.notOk(await next.changedByOthers?.(), 'to find out is no change by others')
    t.same((await pass()).sort(), ['x/1 changed', 'x/2 changed', 'x/x_end changed'])
    t.same(await keys(), [])
    t.equal(sorted(table()), sorted(whole), 'and nothing is left of the question')
  })

  t.test('a change of ours to a list that others have torn up keeps what is left of it', async (t) => {
    const { driver, pass } = await open(t, wanted(70))
    nft('insert rule inet stratum x_list drop')
    await driver.observe()
    const [, ...more] = rules(71).slice(-2)
    await driver.apply(more.map((after) => ({ after })))
    const keys = [...table().matchAll(/comment "(x\/\d+) /g)].map(([, key]) => key)
    t.same(keys.length, 71)
    t.same(await pass(), ['x/71 foreign'], 'the foreign rule went with that change')
  })

  t.test('ours and theirs are told apart, whatever comes first', async (t) => {
    const { driver } = await open(t, wanted(3))
    const others = () => driver.changedByOthers?.()
    const extra = { kind: 'rule', key: 'x/4', list: 'x_list', rank: [0, 4], text: 'tcp dport 4 drop' } as const
    await driver.apply([{ after: extra }])
    t.notOk(await others(), 'a rule')
    await driver.apply([{ before: extra }])
    t.notOk(await others(), 'its removal')
    await driver.addExpiring('x_gone', ['192.0.2.5'])
    await driver.addExpiring('x_gone', ['192.0.2.5'])
    t.notOk(await others(), 'elements that expire, and those that were there already')
    await driver.apply([{ after: element('x_open', '192.0.2.1') }])
    t.notOk(await others(), 'an element that was there already')
    await t.rejects(driver.apply([{ after: { ...extra, text: 'jump nowhere' } }]), { name: 'KernelRefusal' })
    t.notOk(await others(), 'a refused change')
    await Promise.all(
      Array.from({ length: 30 }, (_, n) => driver.addExpiring('x_gone', [`192.0.2.${n}`]).then(others)),
    ).then((answers) => t.same(new Set(answers), new Set([false]), 'in any moment of our own work'))
    nft('add table inet other')
    await driver.apply([{ after: extra }])
    t.ok(await others(), 'theirs before ours')
    await driver.observe()
    t.notOk(await others())
    const ours = driver.apply([{ before: extra }])
    nft('delete table inet other')
    await ours
    t.ok(await others(), 'theirs during ours')
  })
}

/** Chains of a list are named as they come; their order in a listing says nothing. */
const sorted = (listing: string) =>
  listing
    .replaceAll(/x_list_\d+/g, 'x_list_n')
    .split('\n')
    .sort()
    .join('\n')
