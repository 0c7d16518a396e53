/**
 * What counts when a node's own changes come into its store before older ones of others. Pure: the replica decides by this, and so does
 * the model that tries all orders of things (`test/cluster-model/`).
 *
 * For each key a store holds the newest of all that happened up to the revision it has reached and of the node's own changes beyond that.
 */

/** What a store has of the cluster. */
export interface Held {
  /** It has all revisions up to this one. */
  reached: number
  /** Whether this revision is a change of this node that the watch has yet to tell of. */
  isOwn(revision: number): boolean
  /** Of which revision a key is; 0: the store has none of it. */
  revisionOf(key: string): number
}

/** What becomes of a revision that the watch tells of: the store has it, it is the node's own and only passed, or it is taken over. */
export function fateOf(revision: number, { reached, isOwn }: Held): 'known' | 'own' | 'taken' {
  if (revision <= reached) return 'known'
  return isOwn(revision) ? 'own' : 'taken'
}

/**
 * Whether a key as it was at `revision` is outdated: this node has changed it later. What others made of it before, they had deleted before,
 * or etcd would have refused the change of this node.
 */
export const isOutdated = (key: string, revision: number, { revisionOf }: Held): boolean => revisionOf(key) > revision

/**
 * Whether all rows as they were at `read` are too old to replace those of the store, which has a change of this node at `own`. A
 * cluster that has not gone on since they were read `before` has lost that change: then they count.
 */
export const isTooOld = (read: number, before: number, own: number | undefined): boolean =>
  read > before && own !== undefined && own > read
