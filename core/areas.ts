/** Finds the areas of this build, puts them in order, and knows which of them are on. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { KindOwners } from '../dataplane/bpf/port/driver.ts'
import type { PortKind } from '../dataplane/bpf/port/entries.ts'
import type { Skeleton } from '../dataplane/nft/skeleton.ts'
import type { Plane } from '../dataplane/plane.ts'
import type { AreaPlugin, Db, Desired, LoadedArea, Part } from './area.ts'
import { loadModule } from './modules.ts'

export interface Off {
  name: string
  reason: string
}

export interface AreaStates {
  /** The area on whose prefixes `path` (below /api/v1) lies. */
  owner(path: string): string | undefined
  /** The area, or the part of one, that is off and on whose prefixes `path` lies, and why it is off. */
  offAt(path: string): Off | undefined
  /** Why the area is off; undefined while it is on. */
  reasonOff(area: string): string | undefined
  /** What areas that are on have to say of a thing of `area`. */
  warnings(db: Db, area: string, id: string): string[]
  turnOff(area: string, reason: string): void
  turnOffPart(part: Part, reason: string): void
  /** What the area is for. */
  summary(area: string): string | undefined
  /** The areas, without their parts. */
  all(): { name: string; reason: string | undefined }[]
}

/** Every folder below `dir` that has an index is an area. */
export async function discoverAreas(dir: string): Promise<AreaPlugin[]> {
  const names = readdirSync(dir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()
  const modules = names.map((name) => loadModule<{ default: AreaPlugin }>(join(dir, name, 'index.js')))
  return (await Promise.all(modules)).map((module) => module.default)
}

/** Those of `dir`, of them `only` where that is said, and extra ones. */
export async function chosenPlugins(
  dir: string,
  { extraAreas = [], only }: { extraAreas?: readonly AreaPlugin[]; only?: readonly string[] },
): Promise<AreaPlugin[]> {
  const found = await discoverAreas(dir)
  return [...(only ? found.filter(({ area }) => only.includes(area.name)) : found), ...extraAreas]
}

/** Areas in an order in which each comes after those it needs. Throws, by name, on a missing or circular need. */
export function inOrder(areas: readonly LoadedArea[]): LoadedArea[] {
  const byName = new Map(areas.map((area) => [area.name, area]))
  const [done, open] = [new Set<LoadedArea>(), new Set<LoadedArea>()]
  const visit = (area: LoadedArea): void => {
    if (done.has(area)) return
    if (open.has(area)) throw new Error(`area ${area.name} needs itself through its own needs`)
    open.add(area)
    const unneeded = Object.keys(area.follows ?? {}).find((name) => !area.needs?.includes(name))
    if (unneeded !== undefined) throw new Error(`area ${area.name} follows ${unneeded}, which is none of its needs`)
    const unknown = Object.keys(area.warnings ?? {}).find((name) => !area.needs?.includes(name))
    if (unknown !== undefined) throw new Error(`area ${area.name} warns of ${unknown}, which is none of its needs`)
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

/** Why the areas called `names` cannot be off together: there is no such area, or another that is on needs one of them. */
export function whyNotDisabled(areas: readonly LoadedArea[], names: readonly string[]): string[] {
  const disabled = new Set(names)
  const unknown = names.filter((name) => !areas.some((area) => area.name === name))
  const there = () =>
    areas
      .map(({ name }) => name)
      .sort()
      .join(', ')
  return [
    ...unknown.map((name) => `no area is called ${name} (there are ${there()})`),
    ...areas.flatMap((area) => {
      const missing = disabled.has(area.name) ? undefined : area.needs?.find((name) => disabled.has(name))
      return missing === undefined ? [] : [`${missing} is needed by ${area.name}; disable both or neither`]
    }),
  ]
}

export function areaStates(areas: readonly LoadedArea[]): AreaStates {
  const off = new Map<string, string>()
  const offParts = new Map<Part, string>()
  // Longest prefix first, so that an area may own a path below another's.
  const prefixes = areas
    .flatMap((area) => [
      ...area.prefixes.map((prefix) => ({ prefix, area: area.name, part: undefined })),
      ...(area.parts ?? []).flatMap((part) => part.prefixes.map((prefix) => ({ prefix, area: area.name, part }))),
    ])
    .sort((a, b) => b.prefix.length - a.prefix.length)
  const covers = (prefix: string, path: string) =>
    path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/')
  const at = (path: string) => prefixes.find(({ prefix }) => covers(prefix, path))
  return {
    owner: (path) => at(path)?.area,
    offAt(path) {
      const { area = '', part } = at(path) ?? {}
      const reason = off.get(area) ?? (part && offParts.get(part))
      return reason === undefined ? undefined : { name: part?.name ?? area, reason }
    },
    reasonOff: (area) => off.get(area),
    summary: (name) => areas.find((area) => area.name === name)?.summary,
    warnings: (db, area, id) =>
      areas.flatMap((other) => (off.has(other.name) ? [] : (other.warnings?.[area]?.(db, id) ?? []))),
    turnOff: (area, reason) => void off.set(area, reason),
    turnOffPart: (part, reason) => void offParts.set(part, reason),
    all: () => areas.map(({ name }) => ({ name, reason: off.get(name) })),
  }
}

/** How an area renders on this node; undefined for one that has nothing in the kernel. */
export const desiredOn = (
  { kinds }: Pick<Plane, 'kinds'>,
  { desired }: Pick<LoadedArea, 'desired'>,
): Desired | undefined => (typeof desired === 'function' ? desired(kinds) : desired)

/** The static nft text of an area, as the driver takes it. */
export function skeletonOf({ name, nft }: LoadedArea): Skeleton[] {
  if (nft === undefined) return []
  const { skeleton, lists = [], chains = [], sets = [] } = nft
  return [{ area: name, text: skeleton, lists, chains, sets }]
}

/** The area that renders each kind of entry of the programs on the workload ports. @throws Error when two claim one */
export function portKindsOf(areas: readonly LoadedArea[]): KindOwners {
  const owners: Partial<Record<PortKind, string>> = {}
  for (const { name, port = [] } of areas) {
    for (const kind of port) {
      if (owners[kind] !== undefined)
        throw new Error(`entries of kind ${kind} are claimed by ${owners[kind]} and ${name}`)
      owners[kind] = name
    }
  }
  return owners
}

/** Area → the number that marks what is its in netlink, of those too that are off: what they have made stays theirs. */
export function ownersOf(areas: readonly LoadedArea[]): Map<string, number> {
  return new Map(areas.flatMap(({ name, netlink }) => (netlink ? [[name, netlink.owner] as const] : [])))
}

/** What the data plane must know of the areas that are not disabled. */
export const neededBy = (areas: readonly LoadedArea[], disabled: ReadonlySet<string>) => ({
  skeletons: areas.flatMap((area) => (disabled.has(area.name) ? [] : skeletonOf(area))),
  owners: ownersOf(areas),
  portKinds: portKindsOf(areas),
})

/** Turns off the areas and parts that ask for a facility which this node does not have, and areas that need such an area. */
export function turnOffUnsupported(areas: readonly LoadedArea[], plane: Plane, states: AreaStates): void {
  const facilities = new Map(plane.check().map((facility) => [facility.name, facility]))
  const missingOf = ({ requires = [] }: Pick<LoadedArea, 'requires'>) =>
    requires.find((name) => !facilities.get(name)?.available)
  const why = (missing: string) => facilities.get(missing)?.detail ?? `${missing} is not there`
  for (const area of areas) {
    for (const part of area.parts ?? []) {
      const missing = missingOf(part)
      if (missing) states.turnOffPart(part, why(missing))
    }
    if (states.reasonOff(area.name) !== undefined) continue
    const missing = missingOf(area)
    const off = area.needs?.find((name) => states.reasonOff(name) !== undefined)
    if (missing) states.turnOff(area.name, why(missing))
    else if (off) states.turnOff(area.name, `needs ${off}, which is off`)
  }
}
