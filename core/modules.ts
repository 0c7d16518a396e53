/** Modules that are found by where they are. */
import { pathToFileURL } from 'node:url'

/** What the module `file` exports. A bundle has a table of them in place of this function (scripts/bundle.ts). */
export const loadModule = <T>(file: string): Promise<T> => import(pathToFileURL(file).href)

/** Whether this is a bundle, where modules have no files. */
export const IS_BUNDLE = false
