/** Numbers and names that attaching programs shares with the kernel. */

/**
 * Filters of clsact, by which programs hang on devices where the kernel has no tcx (before Linux 6.6): the first part of
 * their names, and the handle of the first kind (filters.ts). Both together mark a filter as ours.
 */
export const FILTER_NAME = 'stratum'
export const FILTER_HANDLE = 0x73740001

/** An interface that is there for a moment, on which an agent tries at its start whether programs can be attached. */
export const TRIAL_DEVICE = 'sttrial'
/** The group of that interface, which tells it from one of others that has the name. */
export const TRIAL_GROUP = 0x73740002
