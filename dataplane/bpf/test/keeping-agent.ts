/** Run by kept.test.ts as a process of its own until it is killed: loads the probe and keeps it, again and again anew. */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { KEPT } from '../bpffs.ts'
import { openObject } from '../object.ts'
import { objectPath } from './support.ts'

const [pinDir = ''] = process.argv.slice(2)
const keepIn = join(pinDir, KEPT)
process.send?.('begins')
for (let round = 0; ; round++) {
  const object = openObject(objectPath('probe'), { pinDir, keepIn })
  await object.load()
  object.close()
  const [some] = readdirSync(keepIn)
  // Two of three find everything as it was.
  if (some !== undefined && round % 3 === 0) rmSync(join(keepIn, some))
}
