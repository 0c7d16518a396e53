/** `npm run new-area NAME`: a working area from templates/area, migrations included. No other file needs an edit. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateMigrations } from './generate.ts'

/** Names double as table prefix, nft prefix and gRPC service name. */
const NAME = /^[a-z][a-z0-9]{1,19}$/

export function newArea(root: string, name: string): void {
  const target = join(root, 'plugins', name)
  if (!NAME.test(name)) throw new Error('NAME must be 2 to 20 lower-case letters and digits, a letter first')
  if (existsSync(target)) throw new Error(`plugins/${name} exists already`)
  cpSync(join(root, 'templates/area'), target, { recursive: true })
  for (const entry of readdirSync(target, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('AREA', name))
  }
  generateMigrations(root, `plugins/${name}`, 'init')
  execFileSync(join(root, 'node_modules/.bin/biome'), ['format', '--write', `plugins/${name}`], {
    cwd: root,
    stdio: 'ignore',
  })
}

if (import.meta.filename === process.argv[1]) {
  const [name = ''] = process.argv.slice(2)
  try {
    newArea(process.cwd(), name)
    process.stdout.write(`plugins/${name} is ready: write its README first, then npm test\n`)
  } catch (error) {
    process.stderr.write(`usage: npm run new-area NAME\n${(error as Error).message}\n`)
    process.exit(2)
  }
}
