/** Tells one build of the responder from another, so that an agent after an upgrade does not go on with the old one. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')
const FOLDERS = ['responder', 'dataplane/responder']

/** Digest of the program's files as they are on disk now. */
export function responderBuild(): string {
  const hash = createHash('sha256')
  for (const folder of FOLDERS) {
    const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    for (const file of files.filter((name) => name.endsWith('.js') && !name.includes('test')).sort()) {
      hash.update(`${folder}/${file}\n`).update(readFileSync(join(ROOT, folder, file)))
    }
  }
  return hash.digest('hex').slice(0, 16)
}
