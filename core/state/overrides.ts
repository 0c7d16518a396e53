/**
 * The local overrides (root, 0600): what `config set`, `service` and `api-token` change on this node. The panel's file is
 * another file, so a panel sync cannot discard them.
 */
import { chmodSync, readFileSync, renameSync } from 'node:fs'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { writePrivateFile } from '../private-file.ts'

export interface OverridesContent {
  config: Record<string, string>
  /** The REST service switch. */
  rest: boolean
  /** SHA-256 of the node API token, hex. */
  tokenHash?: string
}

export interface Overrides {
  read(): Readonly<OverridesContent>
  /** Writes durably before it returns. */
  change(edit: (content: OverridesContent) => void): void
  /** Why nothing of the file is in force; undefined when all of it is. */
  problem(): string | undefined
}

const Stored = Type.Object({
  config: Type.Record(Type.String(), Type.String()),
  rest: Type.Boolean(),
  tokenHash: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
})

const EMPTY: OverridesContent = { config: {}, rest: false }

/** @throws Error for a file that cannot be used */
export const openOverrides = (path: string): Overrides => overrides(path, load(path))

/**
 * The same for the agent, which must be there to be asked: a file that cannot be used counts as an empty one, so that there is no
 * token and nothing listens on the network. The first change keeps it beside the new one.
 */
export function openOverridesAnyhow(path: string): Overrides {
  try {
    return openOverrides(path)
  } catch (error) {
    return overrides(path, EMPTY, `${(error as Error).message}; until then no local setting and no token is in force`)
  }
}

function overrides(path: string, loaded: OverridesContent, problem?: string): Overrides {
  let content = loaded
  let amiss = problem
  return {
    read: () => content,
    change(edit) {
      const next = structuredClone(content)
      edit(next)
      if (amiss !== undefined) renameSync(path, `${path}.damaged`)
      writePrivateFile(path, `${JSON.stringify(next, null, 2)}\n`)
      content = next
      amiss = undefined
    },
    problem: () => amiss,
  }
}

function load(path: string): OverridesContent {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return EMPTY
    throw new Error(`the local overrides ${path} cannot be read: ${(error as Error).message}`)
  }
  // The file holds the token's hash: should somebody have widened its mode, take that back before anything else.
  chmodSync(path, 0o600)
  const { tokenHash, ...rest } = parse(text, path)
  return { ...rest, ...(tokenHash !== undefined && { tokenHash }) }
}

function parse(text: string, path: string): Static<typeof Stored> {
  try {
    const parsed: unknown = JSON.parse(text)
    if (Value.Check(Stored, parsed)) return parsed
  } catch {
    // The one message is for both cases.
  }
  throw new Error(
    `the local overrides ${path} are damaged: restore them from a backup or move the file away, then restart stratumd`,
  )
}
