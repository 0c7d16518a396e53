/**
 * The configuration that a panel writes. It is taken as a whole or not at all: a file that cannot be used never takes the
 * place of one that could, not even across a restart of the agent.
 */
import { readFileSync, rmSync } from 'node:fs'
import { writePrivateFile } from './private-file.ts'

export class ConfigError extends Error {}

export type PanelValues = Readonly<Record<string, unknown>>

export interface PanelFile {
  /** What the file said when it could last be used; an absent file says nothing. */
  values(): PanelValues
  /** Reads it again. Never throws for what the file holds. */
  refresh(): void
  /** The file could not be used and no usable one was kept, so that nothing is known of what it should say. */
  lost(): boolean
  /** Why the file as it is now is not in force, or not kept; undefined when all is well. */
  problem(): string | undefined
}

/**
 * Reads `path` for the first time. `copy` is where the last usable content is kept; `check` throws a ConfigError for values
 * that are not acceptable.
 */
export function openPanelFile(path: string, copy: string | undefined, check: (values: PanelValues) => void): PanelFile {
  let text: string | undefined
  let values: PanelValues = {}
  let kept = copy === undefined ? undefined : read(copy)
  let problem: string | undefined
  let lost = false

  /** Takes what a file holds, undefined if it is absent. @throws ConfigError, and then nothing is taken */
  function use(found: string | undefined): void {
    const parsed = found === undefined ? {} : parse(found, path)
    check(parsed)
    text = found
    values = parsed
    lost = false
  }

  function recall(): boolean {
    try {
      if (kept === undefined) return false
      use(kept)
      return true
    } catch (error) {
      // Kept by a release that accepted more: no better than none.
      if (error instanceof ConfigError) return false
      throw error
    }
  }

  /** Keeps what is in force for the next start, should the file be broken then. */
  function keep(): void {
    if (lost || copy === undefined || kept === text) return
    if (text === undefined) rmSync(copy, { force: true })
    else writePrivateFile(copy, text)
    kept = text
  }

  function refresh(): void {
    problem =
      problemOf(lost ? 'none of it is in force' : 'what it said before stays in force', () => {
        const found = read(path)
        if (lost || found !== text) use(found)
      }) ?? problemOf('it is in force, and could not be kept for the next start', keep)
  }

  try {
    use(read(path))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    lost = !recall()
  }
  refresh()
  return { values: () => values, refresh, lost: () => lost, problem: () => problem }
}

function problemOf(consequence: string, work: () => void): string | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    return `${(error as Error).message}; ${consequence}`
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // Errors of node:fs carry a code.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new ConfigError(`${path} cannot be read: ${(error as Error).message}`)
  }
}

function parse(text: string, path: string): PanelValues {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return { ...parsed }
  } catch {
    // Falls through to the one message for both cases.
  }
  throw new ConfigError(`${path} must hold one JSON object`)
}
