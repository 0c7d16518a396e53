/**
 * Configuration: one table of keys. Defaults < what the agent finds on the node < the panel-synced file < local overrides < environment (D27).
 * Keys come from the core and from the areas; a value is checked where it enters and frozen as text.
 */
import { ConfigError, openPanelFile, type PanelValues } from './panel-file.ts'

export interface ConfigKey {
  default: string
  /** Says what is wrong with a value, or nothing. */
  check?: (value: string) => string | undefined
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

export function openConfig(keys: ConfigKeys, sources: ConfigSources): MutableConfig {
  const listeners = new Set<(key: string) => unknown>()
  const detected = new Map<string, string>()
  const panel = openPanelFile(sources.file, sources.copy, (values) => {
    for (const [key, raw] of Object.entries(values)) textOf(keys, key, raw, sources.file)
  })
  const read = () => resolve(keys, sources, Object.fromEntries(detected), panel.values())
  const booted = read()
  let current = booted

  const value = (key: string): string => {
    const definition = keys[key]
    if (definition === undefined) throw new ConfigError(`unknown configuration key: ${key}`)
    return (definition.effective === 'restart' ? booted : current).get(key)?.value ?? definition.default
  }

  const config: MutableConfig = {
    text: value,
    stored: (key) => current.get(key)?.value ?? keys[key]?.default ?? '',
    int: (key) => Number(value(key)),
    flag: (key) => value(key) === 'on',
    list: (key) => splitList(value(key)),
    source: (key) => current.get(key)?.source ?? 'default',
    effective: (key) => keys[key]?.effective ?? 'restart',
    keys: () => Object.keys(keys),
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    problem(key, text) {
      const definition = keys[key]
      if (definition === undefined) return `unknown configuration key: ${key}`
      return definition.check?.(text)
    },
    async reload() {
      const before = current
      panel.refresh()
      current = read()
      const changed = Object.keys(keys).filter(
        (key) => keys[key]?.effective === 'now' && before.get(key)?.value !== current.get(key)?.value,
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

type Resolved = Map<string, { value: string; source: Source }>

function resolve(
  keys: ConfigKeys,
  { file, overrides, environment }: ConfigSources,
  detected: Readonly<Record<string, string>>,
  panel: PanelValues,
): Resolved {
  const resolved: Resolved = new Map()
  const take = (source: Source, values: Readonly<Record<string, unknown>>, where: string) => {
    for (const [key, raw] of Object.entries(values)) {
      const text = textOf(keys, key, raw, where)
      if (text !== undefined) resolved.set(key, { value: text, source })
      else if (source === 'override') throw new ConfigError(`${where}: unknown configuration key ${key}`)
    }
  }
  take('detected', detected, 'what was found on this node')
  take('file', panel, file)
  take('override', overrides(), 'local overrides')
  const fromEnvironment = Object.keys(keys).flatMap((key) => {
    const text = environment[`STRATUM_${key.toUpperCase()}`]
    return text === undefined ? [] : [[key, text]]
  })
  take('environment', Object.fromEntries(fromEnvironment), 'environment')
  return resolved
}

/** The value of a key as text; undefined for a key that this agent does not know. @throws ConfigError */
function textOf(keys: ConfigKeys, key: string, raw: unknown, where: string): string | undefined {
  const definition = keys[key]
  if (definition === undefined) return undefined
  const text = asText(raw)
  const wrong = text === undefined ? 'must be a string, number, boolean or list' : definition.check?.(text)
  if (wrong !== undefined) throw new ConfigError(`${where}: ${key}: ${wrong}`)
  return text ?? ''
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
