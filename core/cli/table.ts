/** All verbs of this build: the core's, those of every area that brings some, and those that the API document yields. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { loadModule } from '../modules.ts'
import { operationsOf, readOpenApi } from './openapi.ts'
import { restVerbs } from './rest.ts'
import type { Pane, Verb } from './verb.ts'
import { verbs as api } from './verbs/api.ts'
import { verbs as apiToken } from './verbs/api-token.ts'
import { verbs as apikeys } from './verbs/apikeys.ts'
import { verbs as auth } from './verbs/auth.ts'
import { completionVerb } from './verbs/completion.ts'
import { verbs as config } from './verbs/config.ts'
import { verbs as doctor } from './verbs/doctor.ts'
import { verbs as drift } from './verbs/drift.ts'
import { verbs as events } from './verbs/events.ts'
import { verbs as license } from './verbs/license.ts'
import { verbs as service } from './verbs/service.ts'
import { verbs as supportBundle } from './verbs/support-bundle.ts'
import { verbs as teardown } from './verbs/teardown.ts'
import { topVerb } from './verbs/top.ts'

const CORE: readonly Verb[] = [
  ...api,
  ...apiToken,
  ...apikeys,
  ...auth,
  ...config,
  ...doctor,
  ...drift,
  ...events,
  ...license,
  ...service,
  ...supportBundle,
  ...teardown,
]
const PLUGINS = join(import.meta.dirname, '../../plugins')

/**
 * Loads `verbs.js` of every folder below `dir` that has one, and nothing else of the areas. Where a verb that somebody wrote and
 * one from `document` have the same path, the written one is it.
 */
export async function allVerbs(dir = PLUGINS, document = readOpenApi()): Promise<Verb[]> {
  const areas = await Promise.all(areaModules(dir).map(async (load) => (await load()).verbs))
  const written: Verb[] = [...CORE, ...areas.flat(), topVerb(() => allPanes(dir)), completionVerb(() => all)]
  const paths = new Set(written.map(({ path }) => path))
  const nouns = new Set(written.map(({ path }) => path.split(' ', 1)[0] ?? ''))
  const made = document === undefined ? [] : restVerbs(operationsOf(document), nouns)
  const all: Verb[] = [...written, ...made.filter(({ path }) => !paths.has(path))]
  return all
}

interface AreaModule {
  verbs: readonly Verb[]
  panes?: readonly Pane[]
}

function areaModules(dir: string): (() => Promise<AreaModule>)[] {
  return readdirSync(dir)
    .map((name) => join(dir, name, 'verbs.js'))
    .filter((file) => existsSync(file))
    .map((file) => () => loadModule<AreaModule>(file))
}

/** What areas show in `stratumctl top`, in their order. */
export async function allPanes(dir = PLUGINS): Promise<Pane[]> {
  const areas = await Promise.all(areaModules(dir).map(async (load) => (await load()).panes ?? []))
  return areas.flat().sort((a, b) => a.order - b.order)
}
