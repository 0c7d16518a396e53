/**
 * Second half of `npm run build`, run from the repository root after tsc: brings into `build/` what tsc does not
 * make. That is the files read at run time, the C header of the shared numbers, and the BPF objects. Writes only what
 * is older than its source, so that a second run costs next to nothing.
 */
import { execFile } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import * as portNumbers from '../dataplane/bpf/port/numbers.ts'
import * as numbers from '../dataplane/numbers.ts'
import * as shapingNumbers from '../dataplane/shaping/numbers.ts'

const OUT = 'build'
const HEADER = join(OUT, 'dataplane/bpf/src/numbers.h')
const BPF_FOLDERS = ['dataplane/bpf/src', 'dataplane/bpf/test']
const BINARIES = ['core/main.js', 'core/cli/main.js']

/** Folders whose files are needed at run time, except those made into something else or read by people only. */
const ASSET_FOLDERS = ['core', 'plugins', 'dataplane', 'responder', 'proto']
/** Of what tsc has made, what the agent or the CLI may load. */
const LOADED = ['core', 'plugins', 'dataplane', 'responder']
const IS_LOADED = /^(?!.*\/test\/).*\.js$/
const NOT_ASSETS = /\.(ts|md|c|h)$/

/** What compiling needs; the pattern tells a missing package from a mistake in a program. */
const TOOLS = [
  { name: 'clang', missing: /spawn clang ENOENT/ },
  { name: 'libbpf-dev', missing: /'bpf\/[a-z_]+\.h' file not found/ },
]

/** The C header of every numeric export: `#define STRATUM_<NAME> <value>`. Strings and functions stay TypeScript's. */
export function numbersHeader(constants: Readonly<Record<string, unknown>>): string {
  const defines = Object.entries(constants).flatMap(([name, value]) => {
    if (typeof value !== 'number' && typeof value !== 'bigint') return []
    if (typeof value === 'number' && !Number.isSafeInteger(value)) {
      throw new Error(`dataplane/numbers.ts: ${name} = ${value} is no whole number for C`)
    }
    const suffix = typeof value === 'number' ? '' : value < 0n ? 'LL' : 'ULL'
    return [`#define STRATUM_${name} ${value < 0 ? `(${value}${suffix})` : `${value}${suffix}`}`]
  })
  const origin = '/* Made by scripts/build.ts from dataplane/numbers.ts: change it there. */'
  return [origin, '#pragma once', '', ...defines.sort(), ''].join('\n')
}

async function build(): Promise<void> {
  for (const folder of ASSET_FOLDERS) for (const file of files(folder)) if (!NOT_ASSETS.test(file)) copy(file)
  for (const file of files('templates')) copy(file)
  write(HEADER, numbersHeader({ ...numbers, ...portNumbers, ...shapingNumbers }))
  for (const binary of BINARIES) {
    const path = join(OUT, binary)
    if (existsSync(path)) chmodSync(path, 0o755)
  }
  await Promise.all([compileAll(), describeApi(), bundlePrograms()])
}

/** One file of each program, and what V8 compiles of it. */
async function bundlePrograms(): Promise<void> {
  if (!existsSync(join(OUT, 'core/daemon.js'))) return
  const loaded = LOADED.flatMap((folder) => files(join(OUT, folder))).filter((file) => IS_LOADED.test(file))
  const newest = Math.max(...[...loaded, 'package-lock.json'].map(modified))
  if (modified(join(OUT, 'bundle/ctl.js')) < newest) {
    const { bundleAll } = await import('./bundle.ts')
    await bundleAll(OUT)
  }
  if (modified(join(OUT, 'bundle/ctl.cache')) < modified(join(OUT, 'bundle/ctl.js')))
    await promisify(execFile)(process.execPath, [join(OUT, 'core/precompile.js')])
}

/** The OpenAPI document as an agent of this build answers it: commands, their completion and man pages are made from it. */
async function describeApi(): Promise<void> {
  const target = join(OUT, 'openapi.json')
  const newest = Math.max(...['core', 'plugins'].flatMap((folder) => files(join(OUT, folder))).map(modified))
  if (modified(target) >= newest) return
  const { build: buildAgent } = await import('../core/app.ts')
  const { fakePlane } = await import('../dataplane/plane.fake.ts')
  const { openLog } = await import('../core/observe/log.ts')
  const stateDir = mkdtempSync(join(tmpdir(), 'stratum-build-'))
  try {
    const agent = await buildAgent({
      stateDir,
      configFile: join(stateDir, 'panel.json'),
      environment: {},
      log: openLog('silent'),
      openPlane: async () => fakePlane(),
    })
    const { payload } = await agent.app.inject({ method: 'GET', url: '/api/v1/docs?format=openapi' })
    await agent.close()
    writeFileSync(target, payload)
  } finally {
    rmSync(stateDir, { recursive: true, force: true })
  }
}

/** Compiles the programs whose object is older than the source or than any header. */
async function compileAll(): Promise<void> {
  const sources = BPF_FOLDERS.flatMap(files)
  const headers = [HEADER, ...sources.filter((file) => file.endsWith('.h'))]
  const newestHeader = Math.max(...headers.map(modified))
  const stale = sources
    .filter((file) => file.endsWith('.bpf.c'))
    .map((source) => ({ source, object: join(OUT, source.replace(/\.c$/, '.o')) }))
    .filter(({ source, object }) => modified(object) < Math.max(modified(source), newestHeader))
  const failures = await Promise.all(stale.map(({ source, object }) => compile(source, object)))
  for (const failure of new Set(failures)) if (failure) process.stderr.write(failure)
}

/** Returns undefined when the object was made, otherwise what to tell the operator. */
async function compile(source: string, object: string): Promise<string | undefined> {
  mkdirSync(dirname(object), { recursive: true })
  const arch = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const include = ['-I', dirname(HEADER), '-I', 'dataplane/bpf/src', '-idirafter', `/usr/include/${arch}-linux-gnu`]
  const flags = ['-O2', '-g', '-Wall', '-target', 'bpf', '-mcpu=v3', '-fdebug-compilation-dir=.', ...include]
  try {
    const { stderr } = await promisify(execFile)('clang', [...flags, '-c', source, '-o', object])
    process.stderr.write(stderr)
    return undefined
  } catch (error) {
    // An old object must not stay behind: it could disagree with the agent about a map.
    rmSync(object, { force: true })
    const tool = TOOLS.find(({ missing }) => missing.test(String(error)))
    if (tool) return `${tool.name} is missing: apt-get install ${tool.name} (the agent then runs without BPF)\n`
    process.exitCode = 1
    return `${String(error)}\n`
  }
}

/** Every file below a folder, as a path from the repository root; none when there is no such folder. */
function files(folder: string): string[] {
  if (!existsSync(folder)) return []
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

function copy(file: string): void {
  const target = join(OUT, file)
  if (modified(target) >= modified(file)) return
  mkdirSync(dirname(target), { recursive: true })
  copyFileSync(file, target)
}

function write(target: string, content: string): void {
  if (existsSync(target) && readFileSync(target, 'utf8') === content) return
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target, content)
}

/** Time of the last change in ms, 0 for a file that is not there. */
function modified(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await build()
