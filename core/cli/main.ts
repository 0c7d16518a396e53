#!/usr/bin/env node
/** Entry of stratumctl: settles what must be before the program is loaded. */
import { closePrototype } from '../../dataplane/prototype.ts'

closePrototype()
await import('./stratumctl.ts')
