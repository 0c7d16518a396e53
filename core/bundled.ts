/**
 * The programs as one file each, and what V8 has compiled of it before (scripts/bundle.ts, precompile.ts). To find, read and compile a
 * thousand modules costs more than all that a start on an empty node does with them.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { constants, Script } from 'node:vm'

export type Program = 'agent' | 'ctl'

/** Characters of the digest that ends a bundle. */
const DIGEST = 64

export interface Bundle {
  /** Runs it. @returns what it exports */
  run(): unknown
  /** V8 uses what was compiled before. */
  precompiled: boolean
  /** What V8 has compiled of it by now, as `<program>.cache` has it. */
  compiled(): Buffer
}

export const BUNDLES = join(import.meta.dirname, '..', 'bundle')

/**
 * The bundle of `program`; undefined where this build has none, or one of its modules is newer: who works on one runs that one.
 * What was compiled by another Node, or of another bundle, is not used.
 */
export function openBundle(program: Program, folder = BUNDLES): Bundle | undefined {
  const filename = join(folder, `${program}.js`)
  if (!existsSync(filename) || isOutdated(filename)) return undefined
  // ASCII, and a string of one byte a character takes half of the memory.
  const code = readFileSync(filename, 'latin1')
  const digest = code.trimEnd().slice(-DIGEST)
  const fit = Buffer.from(`${digest} ${thisNode()}\n`)
  const cachedData = compiledBefore(join(folder, `${program}.cache`), fit)
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {${code}\n})`, {
    filename,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(cachedData && { cachedData }),
  })
  return {
    run() {
      const module = { exports: {} }
      script.runInThisContext()(module.exports, createRequire(filename), module, filename, dirname(filename))
      return module.exports
    },
    precompiled: script.cachedDataRejected === false,
    compiled: () => Buffer.concat([fit, script.createCachedData()]),
  }
}

/**
 * Tells one Node from another. V8 asks for its own version alone: what Node 20.20.2 has compiled it takes in 20.19.0, whose V8 is
 * patched otherwise, and the process ends by a segmentation fault. The program's size and time tell two builds of one version.
 */
function thisNode(): string {
  const { size, mtimeMs } = statSync(process.execPath)
  return JSON.stringify([process.versions, process.arch, size, mtimeMs])
}

/** What begins with `fit`, after that. */
function compiledBefore(file: string, fit: Buffer): Buffer | undefined {
  if (!existsSync(file)) return undefined
  const content = readFileSync(file)
  return content.subarray(0, fit.length).equals(fit) ? content.subarray(fit.length) : undefined
}

/** A package has no list of the modules, and none of them changes. */
function isOutdated(bundle: string): boolean {
  const list = `${bundle}.modules`
  if (!existsSync(list)) return false
  const { mtimeMs } = statSync(bundle)
  const modules = readFileSync(list, 'utf8').trimEnd().split('\n')
  return modules.some(
    (module) => (statSync(join(dirname(bundle), '..', module), { throwIfNoEntry: false })?.mtimeMs ?? 0) > mtimeMs,
  )
}
