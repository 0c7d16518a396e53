/** Numbers of errors, as callers compare with them, and their names. */
import { constants } from 'node:os'

/** asm-generic/errno.h: numbers that callers compare with; the rest go by {@link errnoName}. */
export const EINTR = 4
export const EAGAIN = 11
export const ENODATA = 61
export const ENOBUFS = 105

/** Two names for one number: the one that Node itself uses in its errors wins. */
const ALIASES = new Set(['EWOULDBLOCK', 'EOPNOTSUPP'])

const NAMES: ReadonlyMap<number, string> = new Map([
  ...Object.entries(constants.errno).flatMap(([name, number]): [number, string][] =>
    ALIASES.has(name) ? [] : [[number, name]],
  ),
  // Kernel-internal (include/linux/errno.h), yet some subsystems let it out.
  [524, 'ENOTSUPP'],
])

/** `EEXIST` for 17; `E999` for a number without a name. */
export function errnoName(errno: number): string {
  return NAMES.get(errno) ?? `E${errno}`
}
