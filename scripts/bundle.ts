/**
 * The programs as one file each (core/bundled.ts): `build/bundle/agent.js` and `ctl.js`, with the modules that they load but for
 * those that are native. Made of what tsc has made, and anew when any of that is newer.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { build, type Plugin } from 'esbuild'
import type { Program } from '../core/bundled.ts'

interface Recipe {
  entry: string
  /** The modules of an area that it finds by their places. */
  ofAreas: readonly string[]
}

const RECIPES: Readonly<Record<Program, Recipe>> = {
  agent: { entry: 'core/daemon.js', ofAreas: ['index.js'] },
  // `teardown` asks the areas what they make.
  ctl: { entry: 'core/cli/stratumctl.js', ofAreas: ['verbs.js', 'index.js'] },
}
const NATIVE = ['better-sqlite3', 'better-sqlite3-12', 'koffi']

/** Bundles all programs of the built tree `out`. */
export async function bundleAll(out: string): Promise<void> {
  mkdirSync(join(out, 'bundle'), { recursive: true })
  for (const program of Object.keys(RECIPES) as Program[]) await bundle(resolve(out), program)
}

async function bundle(out: string, program: Program): Promise<void> {
  const { entry, ofAreas } = RECIPES[program]
  const outfile = join(out, 'bundle', `${program}.js`)
  const { metafile, outputFiles } = await build({
    entryPoints: [join(out, entry)],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node20',
    external: NATIVE,
    // A smaller source; names stay as they are, so a stack in the log can be read.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    metafile: true,
    absWorkingDir: dirname(out),
    write: false,
    logLevel: 'warning',
    plugins: [inPlace(out, areaModules(out, ofAreas))],
  })
  const [made] = outputFiles
  if (made === undefined) throw new Error(`esbuild made nothing of ${entry}`)
  const digest = createHash('sha256').update(made.contents).digest('hex')
  writeFileSync(outfile, `${made.text}//${digest}\n`)
  const folder = basename(out)
  const own = Object.keys(metafile.inputs)
    .filter((file) => file.startsWith(`${folder}/`))
    .map((file) => file.slice(folder.length + 1))
  writeFileSync(`${outfile}.modules`, `${own.join('\n')}\n`)
}

/** Paths below `out` of the modules `files` of all areas. */
const areaModules = (out: string, files: readonly string[]): string[] =>
  readdirSync(join(out, 'plugins'))
    .flatMap((area) => files.map((file) => `plugins/${area}/${file}`))
    .filter((path) => existsSync(join(out, path)))

/** Modules of ours say by `import.meta` where they are; in the bundle they say where they were. */
const inPlace = (out: string, found: readonly string[]): Plugin => ({
  name: 'in-place',
  setup({ onLoad }) {
    onLoad({ filter: /\.js$/ }, ({ path }) => {
      if (!path.startsWith(`${out}/`)) return undefined
      const place = relative(out, path)
      if (place === 'core/modules.js') return { contents: table(found), resolveDir: out }
      const where = `require('node:path').join(__dirname, '..', ${JSON.stringify(place)})`
      const contents = readFileSync(path, 'utf8')
        .replaceAll('import.meta.dirname', `require('node:path').dirname(${where})`)
        .replaceAll('import.meta.url', `require('node:url').pathToFileURL(${where}).href`)
      return { contents }
    })
  },
})

/** In place of core/modules.ts. */
const table = (found: readonly string[]): string => `
import { join } from 'node:path'
const modules = {${found.map((path) => `${JSON.stringify(path)}: () => import('./${path}'),`).join('\n')}}
const byFile = new Map(Object.entries(modules).map(([path, load]) => [join(__dirname, '..', path), load]))
export const IS_BUNDLE = true
export const loadModule = async (file) => {
  const load = byFile.get(file)
  if (load === undefined) throw new Error(file + ' is not part of this build')
  return load()
}`
