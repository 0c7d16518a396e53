/**
 * Run by killed.test.ts as a process of its own, which it kills: `changer.js <bpf filesystem> <seed> <step>` makes the
 * changes behind that step, and writes the number of each before it makes it.
 */
import { writeSync } from 'node:fs'
import { openClassifier } from '../open.ts'
import { Steps } from './steps.ts'

const [root = '', seed, step] = process.argv.slice(2)
const steps = new Steps(Number(seed), Number(step))
const onProblem = (error: unknown) => {
  console.error(error)
  process.exit(1)
}
const { rules } = await openClassifier({ root, onProblem })
for (;;) {
  const changes = steps.next()
  writeSync(1, `${steps.step}\n`)
  await rules.apply(changes)
}
