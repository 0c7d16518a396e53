/**
 * Opens the classifier: takes over what an earlier agent pinned, or makes it, and has packets judged by it. What is
 * pinned goes on without the agent: settings, tables, arenas, and one link for each address family.
 */
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BPF_LAYOUT, FILTER_PAGE } from '../../numbers.ts'
import type { Driver } from '../../plane.ts'
import { ensureBpffs, KEPT, layoutDir, layouts, removeLayout, retire } from '../bpffs.ts'
import { u32 } from '../codec.ts'
import { type BpfMap, createMap, MAP_TYPE, mapInfo } from '../map.ts'
import { mapMemory } from '../mapped.ts'
import { type BpfObject, openObject } from '../object.ts'
import { PinFolders } from '../pinned.ts'
import { Arena, arenaMap } from './arena.ts'
import { openById } from './by-id.ts'
import { Classifier } from './classifier.ts'
import { DeviceNames, deviceName, deviceNumber } from './devices.ts'
import { filterDrivers } from './driver.ts'
import { enforcement } from './enforcement.ts'
import { explain } from './explain.ts'
import { FilterFamily } from './family.ts'
import type { Filter } from './filter.ts'
import type { Family } from './image.ts'
import { FilterLinks } from './links.ts'
import { SETTINGS_BYTES, Settings } from './settings.ts'
import { TABLES_BYTES, TableSet } from './table-set.ts'
import { adopt, FIRST_CELLS } from './upkeep.ts'

/** Where the build puts the object of bpf/src/firewall.bpf.c. */
export const FIREWALL_OBJECT = fileURLToPath(new URL('../src/firewall.bpf.o', import.meta.url))

const FAMILIES: readonly Family[] = [4, 6]

export interface ClassifierOptions {
  /** Directory on a bpf filesystem for the pins of this agent. */
  root: string
  /** Told of what goes wrong outside any change. */
  onProblem(error: unknown): void
}

export interface OpenClassifier {
  /** Rules, and a default to accept: before nft. */
  rules: Driver
  /** A default to deny: behind nft, whose marks it needs. */
  defaults: Driver
  filter: Filter
  close(): Promise<void>
}

/** Pins of the classifier are apart from those of the ports: their layouts are not given up at the same moment. */
const pinRoot = (root: string): string => join(root, 'firewall')

/** @throws Error that says what is missing; then nothing is left that was not there before */
export async function openClassifier({ root, onProblem }: ClassifierOptions): Promise<OpenClassifier> {
  ensureBpffs(root)
  const wasThere = classifierAttached(root)
  try {
    return await attach(root, onProblem)
  } catch (cause) {
    if (!wasThere) await removeClassifier(root)
    const [why = ''] = (cause as Error).message.split('\n')
    throw new Error(`needs Linux 6.4 with BPF links for netfilter, and its type information: ${why}`, { cause })
  }
}

async function attach(root: string, onProblem: (error: unknown) => void): Promise<OpenClassifier> {
  retireIncomplete(pinRoot(root))
  const dir = layoutDir(pinRoot(root))
  const object = await load(dir)
  try {
    const grace = graceOf(object)
    const { classifier, outer, close } = await takeOver(object, grace.wait)
    const links = new FilterLinks(dir, object, digestOf(FIREWALL_OBJECT))
    await links.attach()
    const folders = new PinFolders([dir, join(dir, 'links')])
    const mend = async () => {
      object.pinAgain()
      return links.attach()
    }
    let isSettled = false
    const work = enforcement({
      classifier,
      outerOf: ({ family }) => outer[FAMILIES.indexOf(family)] ?? outer[0],
      grace: grace.wait,
      mend,
      async hold() {
        let isMended = false
        await folders.hold(async () => {
          isMended = await mend()
        })
        return isMended
      },
      settled() {
        if (isSettled) return
        isSettled = true
        for (const layout of layouts(pinRoot(root))) if (layout !== BPF_LAYOUT) removeLayout(pinRoot(root), layout)
      },
      onProblem,
      close() {
        close()
        grace.close()
        object.close()
      },
    })
    const program = object.program('explain')
    const filter: Filter = {
      accelerated: true,
      count: (id) => hitsOf(classifier, id),
      trace: (packet) => explain(program, packet),
      detail: () => detailOf(classifier),
    }
    return { ...filterDrivers(work), filter, close: () => work.close() }
  } catch (error) {
    object.close()
    throw error
  }
}

/** Whether an agent has pinned a classifier below `root`. */
export const classifierAttached = (root: string): boolean => existsSync(pinRoot(root))

/** Takes off what an agent has pinned below `root`, in whatever layout. False when there was nothing. */
export async function removeClassifier(root: string): Promise<boolean> {
  const dir = pinRoot(root)
  if (!existsSync(dir)) return false
  rmSync(dir, { recursive: true, force: true })
  return true
}

/** What is pinned of the object besides links. */
const MAPS = ['filter_settings', 'filter_tables', 'filter_devices', 'filter_arena4', 'filter_arena6']

/**
 * Where somebody has removed pins of maps, the programs that are attached go on with maps that nobody can open any more.
 * They are kept like those of another layout: they judge until the rules are in new maps.
 */
function retireIncomplete(root: string): void {
  const dir = layoutDir(root)
  if (!existsSync(join(dir, 'links')) || MAPS.every((name) => existsSync(join(dir, name)))) return
  retire(root)
}

async function load(dir: string): Promise<BpfObject> {
  const object = openObject(FIREWALL_OBJECT, { pinDir: dir, keepIn: join(dir, KEPT) })
  await object.load()
  return object
}

async function takeOver(object: BpfObject, grace: () => Promise<void>) {
  const settingsMemory = mapMemory(object.mapFd('filter_settings'), SETTINGS_BYTES, 'filter_settings')
  const tablesMemory = mapMemory(object.mapFd('filter_tables'), 2 * TABLES_BYTES, 'filter_tables')
  const settings = new Settings(settingsMemory.buffer)
  const isNew = settings.generation === 0
  if (isNew) {
    settings.seed = randomBytes(4).readUInt32LE()
    settings.setDefault(undefined)
    settings.generation = 1
  }
  settings.setClock()
  const devices = new DeviceNames(object.map('filter_devices', deviceName, deviceNumber))
  const outer = [object.map('filter_arena4', u32, u32), object.map('filter_arena6', u32, u32)] as const
  const families: FilterFamily[] = []
  for (const [at, family] of FAMILIES.entries()) {
    const arena = await arenaOf(family, outer[at] ?? outer[0])
    families.push(new FilterFamily(arena, new TableSet(family, tablesMemory.buffer), settings.seed))
  }
  const classifier = new Classifier(families, devices, settings)
  // Whatever the agent before was about to use again, no packet sees any longer.
  await grace()
  for (const family of families) await adopt(classifier, family)
  devices.prune()
  classifier.announce()
  const close = () => {
    for (const { arena } of families) arena.close()
    settingsMemory.unmap()
    tablesMemory.unmap()
  }
  return { classifier, outer, close }
}

/** The arena that packets of a family are judged by; a new one when there is none. */
async function arenaOf(family: Family, outer: BpfMap<number, number>): Promise<Arena> {
  const id = outer.get(0)
  if (id !== undefined) {
    const fd = await openById(id)
    try {
      return new Arena(family, { fd, cells: mapInfo(fd).maxEntries * FILTER_PAGE }, false)
    } finally {
      closeSync(fd)
    }
  }
  const map = createMap(arenaMap(family, FIRST_CELLS))
  try {
    const arena = new Arena(family, { fd: map.fd, cells: FIRST_CELLS }, true)
    await outer.swap(0, map.fd)
    return arena
  } finally {
    map.close()
  }
}

/** What resolves after an RCU grace period: when every packet has been judged that was being judged. */
function graceOf(object: BpfObject): { wait(): Promise<void>; close(): void } {
  const outer = object.map('grace', u32, u32)
  const inner = createMap({ name: 'grace', type: MAP_TYPE.array, maxEntries: 1, key: u32, value: u32 })
  return { wait: () => outer.swap(0, inner.fd), close: () => inner.close() }
}

function hitsOf({ families }: Classifier, id: number) {
  const found = families.flatMap(({ arena, standing }) => {
    const known = standing.get(id)
    return known === undefined ? [] : [arena.longs(known.hits)]
  })
  if (found.length === 0) return undefined
  const sum = (at: number) => found.reduce((total, longs) => total + (longs[at] ?? 0n), 0n)
  return { packets: sum(0), bytes: sum(1) }
}

function detailOf({ families }: Classifier): string {
  const parts = families.map(
    ({ family, standing, tables }) => `IPv${family}: ${standing.size} rules in ${tables.all().length} tables`,
  )
  return `eBPF classifier, ${parts.join(', ')}`
}

/** Tells builds of the programs apart. */
const digestOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 16)
