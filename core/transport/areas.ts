/** The routes of the areas. */
import type { FastifyInstance } from 'fastify'
import type { AreaPlugin, LoadedArea } from '../area.ts'

const PREFIX = '/api/v1'

/** Mounts `plugins` in the order of `areas`, in which each comes after those it needs: Fastify refuses any other. */
export async function mountAreas(
  app: FastifyInstance,
  areas: readonly LoadedArea[],
  plugins: readonly AreaPlugin[],
): Promise<void> {
  for (const area of areas) {
    const plugin = plugins.find((it) => it.area === area)
    if (plugin) await app.register(plugin, { prefix: PREFIX })
  }
}
