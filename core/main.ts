#!/usr/bin/env node
/** Entry of stratumd: settles what must be before the program is loaded. */
import { closePrototype } from '../dataplane/prototype.ts'
import { openBundle } from './bundled.ts'
import { placesFrom } from './environment.ts'
import { bootHeap } from './heap.ts'

closePrototype()
// What was compiled before fits V8 as it is now, not as a boot has it.
const bundle = openBundle('agent')
const heap = bootHeap(placesFrom(process.env).stateDir)
const { main } = (bundle?.run() ?? (await import('./daemon.ts'))) as typeof import('./daemon.ts')
try {
  await main(heap.brought)
} catch (error) {
  process.stderr.write(`stratumd: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
heap.served()
