/** What is asked of V8 at a boot, on the Node that runs this. */
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../test/build.ts'
import { hasBudget } from '../heap.ts'

const HEAP = join(import.meta.dirname, '..', 'heap.js')

t.test('no flag is set that this V8 does not have, or it would write of it at each start', async (t) => {
  const script = `import { bootHeap } from ${JSON.stringify(HEAP)}
    const heap = bootHeap(${JSON.stringify(scratch(t))}); heap.brought(); heap.served()`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  t.equal(stderr, '')
  t.equal(status, 0)
})

t.test('the budget of a boot is set where V8 has one', async (t) => {
  const options = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  t.match(options, /^ {2}--semi-space-growth-factor /m)
  t.equal(hasBudget(process.versions.v8), /^ {2}--interrupt-budget /m.test(options))
})

t.test('the versions of V8 that it was taken from', async (t) => {
  t.ok(hasBudget('11.3.244.8-node.30'), 'Node 20')
  t.notOk(hasBudget('12.4.254.21-node.33'), 'Node 22')
  t.notOk(hasBudget('13.6.233.17-node.28'), 'Node 24')
})
