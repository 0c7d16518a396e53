/** Which files of a built checkout the package takes, and where it puts them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Placed {
  /** Below the checkout, or absolute. */
  from: string
  /** Below the root of the node, without a slash in front. */
  to: string
  executable?: boolean
}

/** What runs on the node; the rest of a build is for those who work on it. */
const FOLDERS = ['bundle', 'core', 'plugins', 'dataplane', 'responder', 'proto']
const PROGRAMS: ReadonlySet<string> = new Set(['core/main.js', 'core/cli/main.js'])
/** What V8 has compiled fits the Node that did: each node does it for its own. */
const NOT_OF_BUILD = /(^|\/)test\/|\.map$|\.h$|\.fake\.js$|^[a-z]+\.(cache|js\.modules)$/
/** Of modules: declarations, tests, and binaries for another libc. */
const NOT_OF_MODULES =
  /\.(d\.[cm]?ts|ts|map|flow|md|markdown|c|cc|cpp|h|hh|hpp|o|a|sh|html|css|gyp|gypi|mk|d|tsbuildinfo)$|^musl_[^/]+\/|(^|\/)(\.|eslint\.config)|(^|\/)(test|tests|__tests__|benchmarks?|examples?|docs|\.github)\//
/** Of native ones: sources, intermediate files, and binaries for other machines. */
const NOT_OF_NATIVE = new RegExp(
  `^(deps|src)/|^build/(?!Release/(?!test_)[^/]+\\.node$)|^prebuilds/(?!linux-${process.arch}\\.node$)`,
)
/** Needed to install other modules, never at run time. */
const INSTALLERS: ReadonlySet<string> = new Set([
  'prebuild-install',
  'node-addon-api',
  'node-gyp',
  '@types/node',
  '@types/better-sqlite3',
])

export const HOME = 'usr/lib/stratum-node'

/** SQLite for Node 20 (core/state/sqlite.ts). */
const OLD_SQLITE = 'better-sqlite3-12'
/** What a binary for Node 20 exports: it fits no other. */
const OF_NODE_20 = 'node_register_module_v115'

/** Whether the checkout has SQLite for Node 20; one that another Node installed has not. */
export function hasOldSqlite(root: string): boolean {
  const binary = join(root, 'node_modules', OLD_SQLITE, 'build/Release/better_sqlite3.node')
  return existsSync(binary) && readFileSync(binary).includes(OF_NODE_20)
}

interface Manifest {
  name: string
  version: string
  license?: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  peerDependenciesMeta?: Record<string, { optional?: boolean }>
}

export interface Module {
  /** Folder below the checkout: `node_modules/…`. */
  folder: string
  name: string
  version: string
  license: string
}

/**
 * The modules that the agent loads, and those that they load, by folder; SQLite for Node 20 on demand.
 * @throws Error when one is not installed
 */
export function productionModules(root: string, withOldSqlite: boolean): Module[] {
  const found = new Map<string, Module>()
  const visit = (folder: string, isRoot: boolean): void => {
    const manifest = readManifest(join(root, folder))
    if (!isRoot) {
      if (found.has(folder)) return
      const { name, version, license = 'see its folder' } = manifest
      found.set(folder, { folder, name, version, license })
    }
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      if (INSTALLERS.has(name) || (name === OLD_SQLITE && !withOldSqlite)) continue
      const at = resolve(root, folder, name)
      if (at !== undefined) visit(at, false)
      else if (name in dependencies && !(name in optionalDependencies) && !peerDependenciesMeta[name]?.optional) {
        throw new Error(`${folder || 'package.json'} needs ${name}, which is not installed: run npm ci`)
      }
    }
  }
  visit('', true)
  return [...found.values()].sort((a, b) => (a.folder < b.folder ? -1 : 1))
}

/** Where Node finds a module from a folder of the checkout. */
function resolve(root: string, from: string, name: string): string | undefined {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    const candidate = join(at, 'node_modules', name)
    if (existsSync(join(root, candidate, 'package.json'))) return candidate
    if (!at.includes('/node_modules/') && at !== '') return existing(root, join('node_modules', name))
    if (at === '') return undefined
  }
}

const existing = (root: string, folder: string) => (existsSync(join(root, folder, 'package.json')) ? folder : undefined)

const readManifest = (folder: string): Manifest => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

/** Everything below `usr/lib/stratum-node`. */
export function programFiles(root: string, modules: readonly Module[]): Placed[] {
  const built = FOLDERS.flatMap((folder) =>
    files(join(root, 'build', folder))
      .filter((file) => !NOT_OF_BUILD.test(file))
      .map((file) => ({
        from: `build/${folder}/${file}`,
        to: `${HOME}/build/${folder}/${file}`,
        executable: PROGRAMS.has(`${folder}/${file}`),
      })),
  )
  const loaded = modules.flatMap(({ folder }) => {
    const all = files(join(root, folder))
    const isNative = all.includes('binding.gyp')
    return (
      all
        // Modules inside of modules are listed by themselves.
        .filter(
          (file) => !file.startsWith('node_modules/') && isNeeded(file) && !(isNative && NOT_OF_NATIVE.test(file)),
        )
        .map((file) => ({ from: `${folder}/${file}`, to: `${HOME}/${folder}/${file}` }))
    )
  })
  return [...built, ...loaded, { from: 'package.json', to: `${HOME}/package.json` }]
}

const isNeeded = (file: string): boolean => /(^|\/)(licen[cs]e|notice)/i.test(file) || !NOT_OF_MODULES.test(file)

/** Templates for other programs, such as those that watch the node. */
export const sharedFiles = (root: string): Placed[] =>
  files(join(root, 'templates'))
    .filter((file) => !/^(area|package)\//.test(file))
    .map((file) => ({ from: `templates/${file}`, to: `usr/share/stratum-node/${file}` }))

/** Every file below a folder, as a path from there, sorted; none when there is no such folder. */
export function files(folder: string): string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()
}
