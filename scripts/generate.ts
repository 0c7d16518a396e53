/**
 * `npm run generate -- FOLDER NAME`: the migration that leads from the last one to what FOLDER/tables.ts says,
 * e.g. `npm run generate -- plugins/firewall add_counters`. Each folder has a journal of its own.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

export function generateMigrations(root: string, folder: string, name: string): void {
  const args = ['generate', '--dialect', 'sqlite', '--schema', `${folder}/tables.ts`, '--out', `${folder}/migrations`]
  execFileSync(join(root, 'node_modules/.bin/drizzle-kit'), [...args, '--name', name], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

if (import.meta.filename === process.argv[1]) {
  const [folder, name] = process.argv.slice(2)
  if (folder === undefined || name === undefined) {
    process.stderr.write('usage: npm run generate -- FOLDER NAME\n')
    process.exit(2)
  }
  generateMigrations(process.cwd(), folder, name)
}
