/** All verbs of this build: the core's, and those of every area that brings some. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Verb } from './verb.ts'
import { verbs as apiToken } from './verbs/api-token.ts'
import { verbs as apikeys } from './verbs/apikeys.ts'
import { verbs as auth } from './verbs/auth.ts'
import { verbs as config } from './verbs/config.ts'
import { verbs as drift } from './verbs/drift.ts'
import { verbs as events } from './verbs/events.ts'
import { verbs as license } from './verbs/license.ts'
import { verbs as service } from './verbs/service.ts'
import { verbs as teardown } from './verbs/teardown.ts'

const CORE: readonly Verb[] = [
  ...apiToken,
  ...apikeys,
  ...auth,
  ...config,
  ...drift,
  ...events,
  ...license,
  ...service,
  ...teardown,
]
const PLUGINS = join(import.meta.dirname, '../../plugins')

/** Loads `verbs.js` of every folder below `dir` that has one, and nothing else of the areas. */
export async function allVerbs(dir = PLUGINS): Promise<Verb[]> {
  const files = readdirSync(dir)
    .map((name) => join(dir, name, 'verbs.js'))
    .filter((file) => existsSync(file))
  const areas = files.map(async (file) => {
    const module: { verbs: readonly Verb[] } = await import(pathToFileURL(file).href)
    return module.verbs
  })
  return [...CORE, ...(await Promise.all(areas)).flat()]
}
