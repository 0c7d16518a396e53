/** The driver over the real kernel, in a network namespace of its own. */
import { execFileSync } from 'node:child_process'
import t, { type Test } from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { passages } from '../../entry.ts'
import { nftDriver } from '../driver.ts'
import { openGeneration } from '../generation.ts'
import { openNft } from '../session.ts'

if (requireRoot(t) && here !== undefined) run()

function run() {
  const nft = (...args: string[]) => execFileSync('nft', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  const skeleton = {
    area: 'x',
    text: 'add chain inet stratum x_list\nadd chain inet stratum x_end\nadd set inet stratum x_set { type ipv4_addr . inet_service; flags interval; }\n',
    lists: ['x_list'],
    chains: ['x_end'],
    sets: ['x_set'],
  }
  const rule = (n: number, text = 'accept') =>
    ({ kind: 'rule', key: `x/${n}`, list: 'x_list', rank: [0, n], text: `tcp dport ${n} ${text}` }) as const
  const open = async (t: Test) => {
    const session = await openNft()
    const sent = { script: () => {} }
    const run = (script: string) => {
      const answer = session.run(script)
      sent.script()
      return answer
    }
    const driver = nftDriver({ ...session, run }, [skeleton], openGeneration())
    t.teardown(() => driver.close())
    const frame = (await driver.observe()).filter(({ key }) => key === 'x/skeleton')
    await driver.apply(frame.map((before) => ({ before })))
    return { session, sent, driver, observed: await driver.observe() }
  }

  t.test('what was applied is observed, by another process too, and adopted without a change', async (t) => {
    const { driver } = await open(t)
    const end = { kind: 'chain', key: 'x/x_end', chain: 'x_end', rules: ['iifname "lo" accept', 'drop'] } as const
    const element = {
      kind: 'element',
      key: 'x/x_set/192.0.2.0/24 . 80',
      set: 'x_set',
      element: '192.0.2.0/24 . 80',
    } as const
    const rules = Array.from({ length: 100 }, (_, n) => rule(n + 1))
    await driver.apply([...rules, end, element].map((after) => ({ after })))
    const { driver: second, observed } = await open(t)
    t.same(passages(observed, [...rules, end, element]), [], 'nothing to do for the next agent')
    const before = nft('list', 'table', 'inet', 'stratum')
    await second.observe()
    t.equal(nft('list', 'table', 'inet', 'stratum'), before, 'observing changes nothing')
    await second.apply([...rules, end, element].map((entry) => ({ before: entry })))
    t.notMatch(nft('list', 'table', 'inet', 'stratum'), /dport|drop|192/, 'all is gone')
  })

  t.test('an element of an interval set takes the place of those inside it, and gives it back', async (t) => {
    const { driver } = await open(t)
    const block = (prefix: string) => {
      const element = `${prefix} . 80`
      return { kind: 'element', key: `x/x_set/${element}`, set: 'x_set', element } as const
    }
    const [small, next, large] = [block('192.0.2.0/25'), block('192.0.2.128/25'), block('192.0.2.0/24')]
    const steps = [[small], [small, next], [large], [small, next], []]
    for (const [at, wanted] of steps.entries()) {
      await driver.apply(passages(steps[at - 1] ?? [], wanted))
      t.same(passages(await driver.observe(), wanted), [], `step ${at}`)
    }
  })

  t.test('persist-04 a refused transaction changes nothing, and other tables are never touched', async (t) => {
    nft('add', 'table', 'inet', 'foreign')
    nft('add', 'chain', 'inet', 'foreign', 'c')
    nft('add', 'rule', 'inet', 'foreign', 'c', 'tcp dport 5 drop')
    const foreign = nft('list', 'table', 'inet', 'foreign')
    const { driver } = await open(t)
    await driver.apply([{ after: rule(1) }])
    const before = nft('list', 'table', 'inet', 'stratum')
    const bad = { ...rule(2), text: 'jump nowhere' }
    await t.rejects(driver.apply([{ after: rule(3) }, { after: bad }]), { name: 'KernelRefusal' })
    t.equal(nft('list', 'table', 'inet', 'stratum'), before)
    await driver.apply([{ after: rule(3) }])
    await driver.apply([{ before: rule(3) }, { before: rule(1) }])
    t.equal(nft('list', 'table', 'inet', 'foreign'), foreign)
    nft('delete', 'table', 'inet', 'foreign')
  })

  t.test('the helper dies: the outcome is uncertain, the next call has a new helper', async (t) => {
    const { session, sent, driver } = await open(t)
    const pid = Number(
      execFileSync('pgrep', ['-P', String(process.pid), '-n', '-f', 'nft/helper'], { encoding: 'utf8' }),
    )
    sent.script = () => {
      sent.script = () => {}
      process.kill(pid, 'SIGKILL')
    }
    const pending = driver.apply(Array.from({ length: 3000 }, (_, n) => ({ after: rule(n + 1) })))
    await t.rejects(pending, { name: 'UncertainOutcome' })
    t.ok(await driver.changedByOthers?.(), 'what is in the kernel now is not known')
    t.match(await session.run('list tables inet\n'), /stratum/)
    const left = await driver.observe()
    await driver.apply(left.map((before) => ({ before })))
    t.same(await driver.observe(), [])
  })

  t.test('tampering is noticed: a deleted rule, a foreign rule, a foreign chain content', async (t) => {
    const { driver } = await open(t)
    const rules = Array.from({ length: 70 }, (_, n) => rule(n + 1))
    await driver.apply(rules.map((after) => ({ after })))
    nft('add', 'rule', 'inet', 'stratum', 'x_list', 'accept')
    nft('add', 'rule', 'inet', 'stratum', 'x_end', 'accept')
    const observed = await driver.observe()
    const diff = passages(observed, rules)
    t.ok(diff.length > 0)
    await driver.apply(diff)
    t.same(passages(await driver.observe(), rules), [])
    t.notMatch(nft('list', 'chain', 'inet', 'stratum', 'x_end'), /accept/)
    await driver.apply(rules.map((before) => ({ before })))
  })
}
