/**
 * Who balances in a test: the eBPF programs, or nft. The same tests hold for both: `X.test.ts` is run with the programs,
 * `X.nft.test.ts` is the same file without them.
 */
import t, { type Test } from 'tap'

export type Lane = 'programs' | 'nft'

/** The lane of this process. */
export const lane: Lane = process.env.STRATUM_BALANCER === 'off' ? 'nft' : 'programs'

/** Environment for an agent of this lane. */
export const laneEnv = { STRATUM_BALANCER: lane === 'nft' ? 'off' : 'on' }

/** A test of this lane, which its title names. */
export const balanced = (title: string, work: (t: Test) => Promise<unknown>) => t.test(`${title} (${lane})`, work)
