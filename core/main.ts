#!/usr/bin/env node
/** Entry of stratumd: settles what must be before the program is loaded. */
import { closePrototype } from '../dataplane/prototype.ts'
import { placesFrom } from './environment.ts'
import { bootHeap } from './heap.ts'

closePrototype()
const heap = bootHeap(placesFrom(process.env).stateDir)
const { main } = await import('./daemon.ts')
try {
  await main(heap.brought)
} catch (error) {
  process.stderr.write(`stratumd: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
heap.served()
