/** Schemas as a document holds them. */

/** A title that is a name: letters, digits, `.`, `_`, `-`. Other titles are remarks and stay where they are. */
const NAME = /^[A-Za-z0-9._-]+$/
/** What stands below these is data, not schema. */
const DATA: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'examples'])

export interface Components {
  /** Schemas by their title. */
  readonly named: Record<string, unknown>
  /**
   * A plain copy of `schema` (JSON Schema as TypeBox makes it), in which every schema that has a name for its title is
   * put among the named ones and referred to. @throws Error when two different schemas have one name
   */
  place(schema: unknown): unknown
}

export function openComponents(): Components {
  const named: Record<string, unknown> = {}

  function place(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map(place)
    if (typeof schema !== 'object' || schema === null) return schema
    const parts = Object.entries(schema).map(([key, part]) => [key, DATA.has(key) ? part : place(part)])
    const copy: Record<string, unknown> = Object.fromEntries(parts)
    const { title } = copy
    if (typeof title !== 'string' || !NAME.test(title)) return copy
    named[title] ??= copy
    if (JSON.stringify(named[title]) !== JSON.stringify(copy)) throw new Error(`two schemas have the title ${title}`)
    return { $ref: `#/components/schemas/${title}` }
  }

  return { named, place }
}
