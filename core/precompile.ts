/** Has V8 compile the bundles, for the Node that runs this: to be done anew after each change of Node (core/bundled.ts). */
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { closePrototype } from '../dataplane/prototype.ts'
import { BUNDLES, openBundle, type Program } from './bundled.ts'

const PROGRAMS: readonly Program[] = ['agent', 'ctl']

closePrototype()
for (const program of PROGRAMS) {
  const bundle = openBundle(program)
  if (bundle === undefined) continue
  // V8 compiles a function when it is first called: what every start calls is wanted, the rest would be read for nothing.
  bundle.run()
  const file = join(BUNDLES, `${program}.cache`)
  // A start may read it meanwhile.
  writeFileSync(`${file}.new`, bundle.compiled(), { mode: 0o644 })
  renameSync(`${file}.new`, file)
}
