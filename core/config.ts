/**
 * Configuration: one table of keys. Defaults < what the agent finds on the node < the panel-synced file < local overrides < environment (D27).
 * Keys come from the core and from the areas; a value is checked where it enters and frozen as text.
 */
import { ConfigError, openPanelFile, type PanelValues } from './panel-file.ts'

export interface ConfigKey {
  default: string
  /** Says what is wrong with a value, or nothing. */
  check?: (value: string) => string | undefined
  /**
   * What else must hold when an operator sets it on this node, where that can be looked up: `refused` says what is wrong with it,
   * `remark` what should be known. `stored` tells other keys as they are stored now. Not asked of values that are stored already.
   */
  whenSet?: (value: string, stored: (key: string) => string) => { refused?: string; remark?: string }
  /** It guards the network services: should its value be unusable when the agent starts, they stay off. Others are ignored then. */
  guards?: true
  /** `now`: a changed value takes effect at once; `restart`: at the next start of the agent. */
  effective: 'now' | 'restart'
  summary: string
}
export type ConfigKeys = Record<string, ConfigKey>
export type Source = 'default' | 'detected' | 'file' | 'override' | 'environment'

export interface Config {
  text(key: string): string
  /** As it is stored now: for a key that takes effect at the next start it may differ from what is in force. */
  stored(key: string): string
  int(key: string): number
  flag(key: string): boolean
  /** Comma-separated, blanks trimmed, empty items dropped. */
  list(key: string): string[]
  source(key: string): Source
  effective(key: string): 'now' | 'restart'
  keys(): readonly string[]
  /**
   * Runs after every change of a key that takes effect at once; `reload` waits for what it returns.
   * Returns how to stop that.
   */
  onChange(listener: (key: string) => unknown): () => void
}

export interface ConfigSources {
  /** Path of the panel-synced JSON file; an absent one is empty. */
  file: string
  /** Where the last usable content of that file is kept, for a start at which it is broken. */
  copy?: string
  overrides: () => Readonly<Record<string, string>>
  environment: Readonly<Record<string, string | undefined>>
}

export interface MutableConfig extends Config {
  /** Says what is wrong with `value` for `key`, or nothing. */
  problem(key: string, value: string): string | undefined
  /** What an operator should know who sets `key` to `value`, or nothing. */
  remark(key: string, value: string): string | undefined
  /** The values that are stored and ignored, each with its place and the way out. */
  ignored(): string[]
  /** Why the network services must stay off: what should have guarded them could not be used at the start. */
  closed(): string | undefined
  /**
   * Reads the sources again and tells the listeners which keys now differ. Rejects when one of them failed.
   * A panel's file that cannot be used changes nothing; see `fileProblem`.
   */
  reload(): Promise<void>
  /** Why the panel's file is not in force; undefined when it is. */
  fileProblem(): string | undefined
  /** Puts what the agent found out by itself in the place of the default. Tells the listeners as `reload` does. */
  detect(key: string, value: string): Promise<void>
}

/** A limit counts credentials and is none. */
const CREDENTIAL = /^(?!max_).*(token|key|secret|password)/
/** Names that contain a credential word but hold file paths. */
const PATH_KEYS = new Set(['tls_key', 'license_trusted_keys'])

/** True when `config set` must refuse the name: credentials never travel through it. */
export const isCredentialKey = (key: string): boolean => CREDENTIAL.test(key) && !PATH_KEYS.has(key)

export function openConfig(table: ConfigKeys, sources: ConfigSources): MutableConfig {
  // Keys of files and paths come from outside.
  const keys: Keys = new Map(Object.entries(table))
  const listeners = new Set<(key: string) => unknown>()
  const detected = new Map<string, string>()
  const panel = openPanelFile(sources.file, sources.copy, (values) => {
    for (const [key, raw] of Object.entries(values)) {
      const { wrong } = keys.has(key) ? readValue(keys, key, raw) : {}
      if (wrong !== undefined) throw new ConfigError(`${sources.file}: ${key}: ${wrong}`)
    }
  })
  const read = () => resolve(keys, sources, detected, panel.values())
  const booted = read()
  const closed = panel.lost()
    ? `${panel.problem()}; correct the file and restart stratumd`
    : booted.ignored.find(({ key }) => keys.get(key)?.guards)?.text
  let current = booted

  const value = (key: string): string => {
    const definition = keys.get(key)
    if (definition === undefined) throw new ConfigError(`unknown configuration key: ${key}`)
    return (definition.effective === 'restart' ? booted : current).values.get(key)?.value ?? definition.default
  }
  const stored = (key: string): string => current.values.get(key)?.value ?? keys.get(key)?.default ?? ''

  const config: MutableConfig = {
    text: value,
    stored,
    int: (key) => Number(value(key)),
    flag: (key) => value(key) === 'on',
    list: (key) => splitList(value(key)),
    source: (key) => current.values.get(key)?.source ?? 'default',
    effective: (key) => keys.get(key)?.effective ?? 'restart',
    keys: () => [...keys.keys()],
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    problem(key, text) {
      const definition = keys.get(key)
      if (definition === undefined) return `unknown configuration key: ${key}`
      return definition.check?.(text) ?? definition.whenSet?.(text, stored).refused
    },
    remark: (key, text) => keys.get(key)?.whenSet?.(text, stored).remark,
    ignored: () => current.ignored.map(({ text }) => text),
    closed: () => closed,
    async reload() {
      const before = current
      panel.refresh()
      current = read()
      const changed = config
        .keys()
        .filter(
          (key) =>
            keys.get(key)?.effective === 'now' && before.values.get(key)?.value !== current.values.get(key)?.value,
        )
      // Each is told, whatever another makes of it: a tightened allow-list must hold even if the kernel refuses something.
      const told = changed.flatMap((key) => Array.from(listeners, async (listener) => listener(key)))
      const failed = (await Promise.allSettled(told)).find((outcome) => outcome.status === 'rejected')
      if (failed) throw failed.reason
    },
    fileProblem: panel.problem,
    detect(key, found) {
      detected.set(key, found)
      return config.reload()
    },
  }
  return config
}

export const splitList = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

type Keys = ReadonlyMap<string, ConfigKey>

interface Resolved {
  values: Map<string, { value: string; source: Source }>
  /** What cannot be used, and is as if it were not there. */
  ignored: { key: string; text: string }[]
}

/** Values of the file are checked by whoever reads it: it is taken as a whole. */
function resolve(
  keys: Keys,
  { file, overrides, environment }: ConfigSources,
  detected: ReadonlyMap<string, string>,
  panel: PanelValues,
): Resolved {
  const resolved: Resolved = { values: new Map(), ignored: [] }
  const take = (source: Source, values: Iterable<[string, unknown]>, where: string, undo: (key: string) => string) => {
    for (const [key, raw] of values) {
      const { text = '', wrong } = readValue(keys, key, raw)
      if (wrong === undefined) resolved.values.set(key, { value: text, source })
      else resolved.ignored.push({ key, text: `${key} in ${where} is ignored: ${wrong}; ${undo(key)}` })
    }
  }
  const known = ([key]: [string, unknown]) => keys.has(key)
  take('detected', detected, 'what was found on this node', () => 'set it')
  take('file', Object.entries(panel).filter(known), file, () => 'correct the file')
  take('override', Object.entries(overrides()), 'the local overrides', (key) => `stratumctl config unset ${key}`)
  const variable = (key: string) => `STRATUM_${key.toUpperCase()}`
  const given = [...keys.keys()].flatMap((key): [string, string][] => {
    const text = environment[variable(key)]
    return text === undefined ? [] : [[key, text]]
  })
  take('environment', given, 'the environment', (key) => `correct ${variable(key)} and restart stratumd`)
  return resolved
}

/** A value as text, or what is wrong with it. */
function readValue(keys: Keys, key: string, raw: unknown): { text?: string; wrong?: string | undefined } {
  const definition = keys.get(key)
  if (definition === undefined) return { wrong: 'this version has no such configuration key' }
  const text = asText(raw)
  return text === undefined
    ? { wrong: 'must be a string, number, boolean or list' }
    : { text, wrong: definition.check?.(text) }
}

function asText(raw: unknown): string | undefined {
  if (typeof raw === 'string') return raw
  if (typeof raw === 'number') return String(raw)
  if (typeof raw === 'boolean') return raw ? 'on' : 'off'
  if (Array.isArray(raw) && raw.every((part) => typeof part === 'string')) return raw.join(',')
  return undefined
}

/** Checks for the tables of keys. */
export const checks = {
  int: (minimum: number, maximum: number) => (text: string) =>
    /^-?[0-9]{1,15}$/.test(text) && Number(text) >= minimum && Number(text) <= maximum
      ? undefined
      : `must be a whole number from ${minimum} to ${maximum}`,
  flag: (text: string) => (text === 'on' || text === 'off' ? undefined : 'must be on or off'),
  path: (text: string) => (text === '' || text.startsWith('/') ? undefined : 'must be an absolute path'),
  paths: (text: string) =>
    splitList(text).every((path) => path.startsWith('/')) ? undefined : 'must be a list of absolute paths',
}
