/** Cards that come and go, in a machine of its own, whose cards nobody needs. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import type { Nic } from '../../../dataplane/nics.ts'
import { requireRoot } from '../../../test/netns.ts'

requireRoot(t)

const BUILD = join(import.meta.dirname, '../../..')
/** What scripts/test-vm.ts ends with when the tools are missing. */
const SKIPPED = 77

t.test('nic-03 a card that is taken away or added is gone or there at the next scan', async (t) => {
  const command = [join(BUILD, 'scripts/test-vm.js'), 'node', join(BUILD, 'plugins/l2/test/cards.js')]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8', timeout: 200_000 })
  if (status === SKIPPED) return t.plan(0, stderr.trim())
  t.equal(status, 0, `${stdout}${stderr}`)
  const [before, without, after] = Array.from(
    stdout.matchAll(/^CARDS (.*)$/gm),
    ([, json = '']) => JSON.parse(json) as Nic[],
  )
  t.match(before, [{ driver: 'virtio_net', pci: /^0000:/, status: 'down', renamed: false }])
  t.same(without, [])
  t.match(after, [{ driver: 'virtio_net', pci: before?.[0]?.pci ?? '' }])
  return undefined
})
