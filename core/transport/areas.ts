/** The routes of the areas. */
import autoload from '@fastify/autoload'
import type { FastifyInstance } from 'fastify'
import type { AreaPlugin } from '../area.ts'

const PREFIX = '/api/v1'

/**
 * Those of `plugins` that have a folder in `dir` are mounted by autoload, which orders them by their needs; those of `extra`
 * one by one, also in place of a folder of the same name.
 */
export async function mountAreas(
  app: FastifyInstance,
  dir: string,
  plugins: readonly AreaPlugin[],
  extra: readonly AreaPlugin[] = [],
): Promise<void> {
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
  for (const plugin of extra) await app.register(plugin, { prefix: PREFIX })
}
