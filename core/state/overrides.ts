/**
 * The local overrides (root, 0600): what `config set`, `service` and `api-token` change on this node. The panel's file is
 * another file, so a panel sync cannot discard them.
 */
import { chmodSync, readFileSync } from 'node:fs'
import { Type } from 'typebox'
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
}

const Stored = Type.Object({
  config: Type.Record(Type.String(), Type.String()),
  rest: Type.Boolean(),
  tokenHash: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
})

export function openOverrides(path: string): Overrides {
  let content = load(path)
  return {
    read: () => content,
    change(edit) {
      const next = structuredClone(content)
      edit(next)
      writePrivateFile(path, `${JSON.stringify(next, null, 2)}\n`)
      content = next
    },
  }
}

function load(path: string): OverridesContent {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { config: {}, rest: false }
    throw new Error(`the local overrides ${path} cannot be read: ${(error as Error).message}`)
  }
  // The file holds the token's hash: should somebody have widened its mode, take that back before anything else.
  chmodSync(path, 0o600)
  const parsed: unknown = JSON.parse(text)
  if (!Value.Check(Stored, parsed)) {
    throw new Error(`the local overrides ${path} are damaged: restore them from a backup or move the file away`)
  }
  const { tokenHash, ...rest } = parsed
  return { ...rest, ...(tokenHash !== undefined && { tokenHash }) }
}
