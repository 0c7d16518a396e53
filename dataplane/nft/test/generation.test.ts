/** The generation of the ruleset, in a network namespace of its own. */
import { execFileSync } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { nextGeneration, openGeneration } from '../generation.ts'

if (requireRoot(t) && here !== undefined) run()

function run() {
  t.test('a commit raises it by one; a refused one, a reading and elements that expire do not', async (t) => {
    const nft = (script: string) =>
      execFileSync('nft', [script], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    const generation = openGeneration()
    t.teardown(() => generation.close())
    let known = generation.read()
    const raised = (what: string, by: 0 | 1) => {
      if (known !== undefined && by === 1) known = nextGeneration(known)
      t.equal(generation.read(), known, what)
    }
    t.type(known, 'number')
    nft('add table inet other')
    raised('a table', 1)
    nft('add set inet other s { type ipv4_addr; flags timeout; }\nadd element inet other s { 192.0.2.1 timeout 200ms }')
    raised('two commands of one transaction', 1)
    t.throws(() => nft('add rule inet other nowhere drop'))
    raised('a refused one', 0)
    nft('list ruleset')
    raised('a reading', 0)
    while (nft('list set inet other s').includes('192.0.2.1')) await wait(50)
    raised('an element that expired', 0)
    nft('add chain inet other c')
    nft('add chain inet other c')
    known = known && nextGeneration(known)
    raised('a chain that is there already, which the driver relies on', 1)
    nft('delete table inet other')
    raised('a deletion', 1)
  })

  t.test('it is a number of 32 bits that leaves out 0, and nothing is told once closed', async (t) => {
    t.equal(nextGeneration(1), 2)
    t.equal(nextGeneration(2 ** 31 - 1), 2 ** 31)
    t.equal(nextGeneration(2 ** 32 - 1), 1)
    const generation = openGeneration()
    generation.close()
    generation.close()
    t.equal(generation.read(), undefined)
  })
}
