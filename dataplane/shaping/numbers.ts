/** Numbers that limits and quotas share with the kernel; they are part of the C header that is made of dataplane/numbers.ts. */

/**
 * Bandwidth limits (bpf/src/shape.h). A shard is a veth pair `<SHAPE_DEVICE><n>` and `<SHAPE_DEVICE><n>p` with an HTB at
 * either end; the cost of a change grows with the classes of one HTB. Minor numbers: 1 to SHAPE_NUMBERS a MAC's class,
 * SHAPE_SLOW more the class that it is throttled in, and SHAPE_POOL more than its number a pool's.
 */
export const SHAPE_SHARDS = 16
export const SHAPE_DEVICE = 'stshape'
export const SHAPE_MAJOR = 1
export const SHAPE_NUMBERS = 20_000
export const SHAPE_SLOW = 0x5000
export const SHAPE_POOL = 0xa000
/** Room for rows that are about to be removed, besides those of all numbers. */
export const SHAPE_ROWS = 32_768

/** Quotas (bpf/src/quota.h): a slot is 2^QUOTA_WORD_BITS words, which are these. */
export const QUOTA_ROWS = 16_384
export const QUOTA_WORD_BITS = 3
/** Bytes in the month of QUOTA_MONTH; that is year * 12 + month from 0 on. */
export const QUOTA_USED = 0
export const QUOTA_MONTH = 1
/** 0: the slot is nobody's. */
export const QUOTA_LIMIT = 2
export const QUOTA_WARN = 3
/** QUOTA_BLOCK, QUOTA_THROTTLE or 0: only counted. */
export const QUOTA_ACTION = 4
/** The level that was told: 0, QUOTA_WARNED or QUOTA_EXCEEDED. */
export const QUOTA_TOLD = 5
/** Agent: number of the quota that the slot is of; never used again for another. */
export const QUOTA_NUMBER = 6
export const QUOTA_BLOCK = 1
export const QUOTA_THROTTLE = 2
export const QUOTA_WARNED = 1
export const QUOTA_EXCEEDED = 2
/** Words of map `quota_clock`. */
export const QUOTA_CLOCK_END = 0
export const QUOTA_CLOCK_MONTH = 1
export const QUOTA_CLOCK_ROWS = 4
export const QUOTA_EVENT_BYTES = 65_536
