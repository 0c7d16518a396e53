/** Schema atoms that areas share. TypeBox builds JSON Schema; Ajv validates it; the documents are made from it. */
import { type Static, type TSchema, Type } from 'typebox'

/** A string out of `values`, as a plain JSON Schema enum. */
export const StringEnum = <const T extends readonly string[]>(values: T, options: Record<string, unknown> = {}) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values], ...options })

export const Problem = Type.Object({ error: Type.String() })
export const Timestamp = Type.String({ description: 'RFC 3339, UTC' })

/**
 * What every object of JavaScript answers to: `constructor`, `toString`, `__proto__` and so on. Nothing may be called so, because
 * programs beside this one also keep what they read by its name in plain objects (`os.networkInterfaces()` of Node does).
 */
export const NAMES_OF_OBJECTS: readonly string[] = [
  '__proto__',
  ...Object.getOwnPropertyNames(Object.prototype).filter((name) => name !== '__proto__'),
]
/** A pattern's string that is none of them, nor one of `others`. */
export const except = (...others: readonly string[]) => ({ not: { enum: [...others, ...NAMES_OF_OBJECTS] } })

/**
 * No control characters (D17), no lone surrogates, which UTF-8 cannot hold, and nothing that is not seen and makes a line read
 * otherwise than it is: format characters (writing direction, zero width) and separators of lines and paragraphs.
 */
const PRINTABLE = '^[^\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]*$'
/** Text for what the rules read: the error can then say what is wrong with it. */
export const Printable = (maxLength: number, description?: string) =>
  Type.String({
    title: `text of at most ${maxLength} characters, without control characters and invisible ones`,
    maxLength,
    pattern: PRINTABLE,
    ...(description && { description }),
  })
/** What people write for people. */
export const FreeText = Printable(255)
/** An address, a prefix, a MAC: read by the rules, so that the error can say what is wrong with it. */
export const AddressText = Printable(64)
/** The number of a row, as a body names it. */
export const RowId = Type.Integer({ maximum: Number.MAX_SAFE_INTEGER, format: 'int64' })
/** The number of a row, as an answer gives it; some begin at 2^40, so generated clients need 64 bits. */
export const Id64 = Type.Integer({ format: 'int64' })
/** What an operator calls a thing (D17). */
export const Name = Type.String({
  title: '1 to 63 letters, digits, blanks, dots, hyphens and underscores',
  pattern: '^[A-Za-z0-9._ -]{1,63}$',
  ...except(),
})
/** An id that the operator chooses, and that stands in a path beside words of its own. */
export const Id = Type.String({
  title: '1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit',
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
  ...except('pools', 'quotas', 'default', 'batch'),
})
/** The shape of a tenant's id; '' is the operator. Whether there is such a tenant is asked where it is stored. */
export const TenantId = Type.String({
  title: 'the id of a tenant: at most 64 letters, digits, dots, hyphens and underscores',
  pattern: '^[A-Za-z0-9._-]{0,64}$',
  ...except(),
})
/** A host name as RFC 1123 §2.1 has it, or ''. */
export const Hostname = Type.String({
  title: 'a host name: letters, digits and hyphens, in parts of at most 63 joined by dots',
  maxLength: 253,
  pattern: '^(|[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*)$',
})
/** A network device name as the kernel accepts it: dev_valid_name() in net/core/dev.c, further narrowed (D17). */
export const InterfaceName = Type.String({
  title: 'a device name: 1 to 15 letters, digits, dots, hyphens and underscores',
  pattern: '^(?!\\.{1,2}$)[A-Za-z0-9_.-]{1,15}$',
  ...except(),
})
export const Port = Type.Integer({ minimum: 1, maximum: 65535 })
/** An id in a path: a positive integer written in decimal. */
export const PathId = Type.String({
  title: 'a whole number from 1 on',
  pattern: '^[1-9][0-9]{0,15}$',
})

export const Deleted = <T extends TSchema>(id: T) => Type.Object({ status: Type.Literal('deleted'), id })

export type Problem = Static<typeof Problem>
