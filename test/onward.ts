import type { TAP, Test } from 'tap'

/**
 * Makes subtests of which each builds on those before it. When one has failed the rest are skipped, and that one stays what failed: they would
 * wait in vain for what is not there, until the time of the file is over.
 */
export const onward =
  (t: TAP) =>
  (name: string, work: (t: Test) => Promise<void>): void => {
    t.test(name, async (sub) => {
      if (t.passing()) await work(sub)
      else sub.pass(name, { skip: 'one before it has failed' })
    })
  }
