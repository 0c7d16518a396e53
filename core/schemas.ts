/** Schema atoms that areas share. TypeBox builds JSON Schema; Ajv validates it; the documents are made from it. */
import { type Static, type TSchema, Type } from 'typebox'

/** A string out of `values`, as a plain JSON Schema enum. */
export const StringEnum = <const T extends readonly string[]>(values: T, options: Record<string, unknown> = {}) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values], ...options })

export const Problem = Type.Object({ error: Type.String() })
export const Timestamp = Type.String({ description: 'RFC 3339, UTC' })

/** Free text of at most 255 characters without control characters (D17) and lone surrogates, which UTF-8 cannot hold. */
const PRINTABLE = '^[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]*$'
export const FreeText = Type.String({ maxLength: 255, pattern: PRINTABLE })
/** The same of another length, for what the rules read: the error can then say what is wrong with it. */
export const Printable = (maxLength: number, description?: string) =>
  Type.String({ maxLength, pattern: PRINTABLE, ...(description && { description }) })
/** An address, a prefix, a MAC: read by the rules, so that the error can say what is wrong with it. */
export const AddressText = Type.String({ maxLength: 64, pattern: PRINTABLE })
/** The number of a row, as a body names it. */
export const RowId = Type.Integer({ maximum: Number.MAX_SAFE_INTEGER })
/** What an operator calls a thing (D17). */
export const Name = Type.String({ pattern: '^[A-Za-z0-9._ -]{1,63}$' })
/** The shape of a tenant's id; '' is the operator. Whether there is such a tenant is asked where it is stored. */
export const TenantId = Type.String({ pattern: '^[A-Za-z0-9._-]{0,64}$' })
/** A host name as RFC 1123 §2.1 has it, or ''. */
export const Hostname = Type.String({
  maxLength: 253,
  pattern: '^(|[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*)$',
})
/** A network device name as the kernel accepts it: dev_valid_name() in net/core/dev.c, further narrowed (D17). */
export const InterfaceName = Type.String({ pattern: '^(?!\\.{1,2}$)[A-Za-z0-9_.-]{1,15}$' })
export const Port = Type.Integer({ minimum: 1, maximum: 65535 })
/** An id in a path: a positive integer written in decimal. */
export const PathId = Type.String({ pattern: '^[1-9][0-9]{0,15}$' })

export const Deleted = <T extends TSchema>(id: T) => Type.Object({ status: Type.Literal('deleted'), id })

export type Problem = Static<typeof Problem>
