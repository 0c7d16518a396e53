/** Finds the areas of this build, puts them in order, and knows which of them are on. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { AreaPlugin, LoadedArea } from './area.ts'

export interface AreaStates {
  /** The area on whose prefixes `path` (below /api/v1) lies. */
  owner(path: string): string | undefined
  /** Why the area is off; undefined while it is on. */
  reasonOff(area: string): string | undefined
  turnOff(area: string, reason: string): void
  all(): { name: string; reason: string | undefined }[]
}

/** Every folder below `dir` that has an index is an area. */
export async function discoverAreas(dir: string): Promise<AreaPlugin[]> {
  const names = readdirSync(dir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()
  const modules = names.map(async (name) => {
    const module: { default: AreaPlugin } = await import(pathToFileURL(join(dir, name, 'index.js')).href)
    return module.default
  })
  return Promise.all(modules)
}

/** Areas in an order in which each comes after those it needs. Throws, by name, on a missing or circular need. */
export function inOrder(areas: readonly LoadedArea[]): LoadedArea[] {
  const byName = new Map(areas.map((area) => [area.name, area]))
  const [done, open] = [new Set<LoadedArea>(), new Set<LoadedArea>()]
  const visit = (area: LoadedArea): void => {
    if (done.has(area)) return
    if (open.has(area)) throw new Error(`area ${area.name} needs itself through its own needs`)
    open.add(area)
    for (const name of area.needs ?? []) {
      const needed = byName.get(name)
      if (needed === undefined) throw new Error(`area ${area.name} needs ${name}, which this build does not have`)
      visit(needed)
    }
    done.add(area)
  }
  for (const area of areas) visit(area)
  return [...done]
}

/** Refuses a configuration that switches off what another, enabled area needs. */
export function checkDisabled(areas: readonly LoadedArea[], disabled: ReadonlySet<string>): void {
  for (const area of areas) {
    const missing = disabled.has(area.name) ? undefined : area.needs?.find((name) => disabled.has(name))
    if (missing) throw new Error(`disabled_areas: ${missing} is needed by ${area.name}; disable both or neither`)
  }
}

export function areaStates(areas: readonly LoadedArea[]): AreaStates {
  const off = new Map<string, string>()
  // Longest prefix first, so that an area may own a path below another's.
  const prefixes = areas
    .flatMap((area) => area.prefixes.map((prefix) => ({ prefix, area: area.name })))
    .sort((a, b) => b.prefix.length - a.prefix.length)
  const covers = (prefix: string, path: string) =>
    path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/')
  return {
    owner: (path) => prefixes.find(({ prefix }) => covers(prefix, path))?.area,
    reasonOff: (area) => off.get(area),
    turnOff: (area, reason) => void off.set(area, reason),
    all: () => areas.map(({ name }) => ({ name, reason: off.get(name) })),
  }
}
