/** The routes of the areas. */
import autoload from '@fastify/autoload'
import type { FastifyInstance } from 'fastify'
import type { AreaPlugin, LoadedArea } from '../area.ts'
import { IS_BUNDLE } from '../modules.ts'

const PREFIX = '/api/v1'

export interface Mounting {
  /** The areas that are on, each after those it needs. */
  areas: readonly LoadedArea[]
  plugins: readonly AreaPlugin[]
  /** Those of `plugins` that have no folder in `dir`, or stand in place of one. */
  extra?: readonly AreaPlugin[] | undefined
}

/**
 * Mounts all plugins. Those with a folder in `dir` are mounted by autoload, which orders them by their needs, then those of
 * `extra`. A bundle has no files that autoload could load: it mounts them in the order of `areas`.
 */
export async function mountAreas(app: FastifyInstance, dir: string, mounting: Mounting): Promise<void> {
  const { areas, plugins, extra = [] } = mounting
  const one = (plugin: AreaPlugin) => app.register(plugin, { prefix: PREFIX })
  if (IS_BUNDLE) {
    for (const area of areas) for (const plugin of plugins.filter((it) => it.area === area)) await one(plugin)
    return
  }
  const names = new Set(plugins.filter((it) => !extra.includes(it)).map(({ area }) => area.name))
  await app.register(autoload, {
    dir,
    maxDepth: 1,
    forceESM: true,
    dirNameRoutePrefix: false,
    options: { prefix: PREFIX },
    matchFilter: (path: string) => {
      const name = /^\/([a-z0-9-]+)\/index\.js$/.exec(path)?.[1]
      return name !== undefined && names.has(name)
    },
  })
  for (const plugin of extra) await one(plugin)
}
