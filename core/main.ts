#!/usr/bin/env node
/**
 * Entry of stratumd. While the program is loaded and built the young generation of the heap must not grow: what boot
 * leaves there is never given back on an idle node and costs 20 MB. Afterwards it may, so load is served at full speed.
 */
import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--semi-space-growth-factor=1')
const { main } = await import('./daemon.ts')
try {
  await main()
} catch (error) {
  process.stderr.write(`stratumd: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
setFlagsFromString('--semi-space-growth-factor=2')
