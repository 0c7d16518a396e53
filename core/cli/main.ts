#!/usr/bin/env node
/** Entry of stratumctl: settles what must be before the program is loaded. */
import { closePrototype } from '../../dataplane/prototype.ts'
import { openBundle } from '../bundled.ts'

closePrototype()
const { main } = (openBundle('ctl')?.run() ?? (await import('./stratumctl.ts'))) as typeof import('./stratumctl.ts')
await main()
