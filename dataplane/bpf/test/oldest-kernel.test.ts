/** The programs on the oldest kernel that the agent supports, Debian 12's 6.1, in a machine of its own. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'

requireRoot(t)

const ROOT = join(import.meta.dirname, '../../../..')
/** What scripts/test-vm.ts ends with when the tools are missing. */
const SKIPPED = 77

t.test('every program passes the verifier of Linux 6.1', async (t) => {
  const command = [join(ROOT, 'build/scripts/test-vm.js'), 'node', join(ROOT, 'build/dataplane/bpf/test/verify.js')]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8', timeout: 200_000 })
  if (status === SKIPPED) return t.plan(0, stderr.trim())
  t.equal(status, 0, `${stdout}${stderr}`)
  t.match(stdout, /^port\.bpf\.o verified by 6\.1\./m)
  return undefined
})
