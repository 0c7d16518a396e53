/**
 * What is left to chance in a test comes from this number. A run is the same every time unless `SEED` says another
 * (`SEED=$RANDOM npm test`), so that a change is not blamed for a case that nobody has met before.
 */
export const SEED = Number(process.env.SEED ?? 1)
