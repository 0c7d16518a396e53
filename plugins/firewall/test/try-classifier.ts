/** Ends with 0 when the classifier can be attached in the namespace of this process, which is gone at once. */
import { mkdirSync, rmSync } from 'node:fs'
import { ensureBpffs } from '../../../dataplane/bpf/bpffs.ts'
import { openClassifier } from '../../../dataplane/bpf/firewall/open.ts'

const root = `/sys/fs/bpf/sttry${process.pid}`
try {
  ensureBpffs(root)
  mkdirSync(root, { recursive: true })
  const classifier = await openClassifier({ root, onProblem: () => {} })
  await classifier.close()
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  rmSync(root, { recursive: true, force: true })
}
