/** How a cluster of one node begins: with a new etcd, or with what is left of the one of a cluster whose other members are gone. */
import { randomBytes } from 'node:crypto'
import type { Db } from '../../core/area.ts'
import { conflict } from '../../core/errors.ts'
import { makeOwn, trustNobodyElse } from './authority.ts'
import { peerUrl } from './etcd/child.ts'
import type { Etcd } from './etcd/client.ts'
import { untilAnswers } from './etcd/session.ts'
import { type Op, put } from './etcd/words.ts'
import { META, memberKey, trustKey } from './keys.ts'
import { LOST, START_MS, type Steps } from './life.ts'
import * as membership from './membership.ts'
import * as tables from './tables.ts'
import { recordOf } from './trusting.ts'

const { asUnavailable, unavailable } = membership

export interface Founding {
  found(): Promise<void>
  recover(): Promise<void>
}

export function openFounding(steps: Steps): Founding {
  const { context, options, files, running, closing, identity } = steps
  const { replica } = running

  /** In a mutation; the etcd has this node's rows then, and nothing else that members share. */
  async function fill(tx: Db, etcd: Etcd, me: tables.Self, more: readonly Op[]): Promise<void> {
    await replica.importInto(tx, etcd, me.node)
    const { revision } = await etcd.txn([], [...more, put(META.imported, me.node)], START_MS)
    const own: tables.Self = { ...me, mode: 'member', revision, shares: replica.shares, hadOthers: false }
    tx.insert(tables.self).values(own).onConflictDoUpdate({ target: tables.self.id, set: own }).run()
  }

  async function found(): Promise<void> {
    if (identity()) return
    steps.mustBeAble()
    await steps.wipe()
    const [cluster, node, address] = [randomBytes(8).toString('hex'), options.self, options.address()]
    const { authority, certificate, key } = await makeOwn(cluster, { node, address }, context.now())
    files.keepAuthority(authority)
    files.keep({ ca: authority.certificate, certificate, key })
    const { peerPort } = options
    const initialCluster = `${node}=${peerUrl(address, peerPort)}`
    const rest = { initialCluster, revision: 0, shares: '', hadOthers: false, newcomersUntil: '' }
    const me: tables.Self = { id: 1, mode: 'member', node, cluster, address, peerPort, ...rest }
    try {
      const session = await running.run(me, 'new')
      await untilAnswers(session, (own) => own.get(META.id, { ms: 500 }), START_MS, closing)
      await steps.change((tx) => {
        const record = { address, since: context.now().toISOString() }
        const first = [
          put(META.id, cluster),
          put(trustKey(node), JSON.stringify(recordOf(authority.certificate, [authority.certificate]))),
        ]
        return fill(tx, session.etcd, me, [...first, put(memberKey(node), JSON.stringify(record))])
      })
    } catch (error) {
      await running.stop()
      await steps.wipe()
      throw unavailable(`no cluster could be made: ${(error as Error).message}`, error)
    }
    const session = running.session()
    if (session) await steps.settle(session, me)
  }

  /**
   * An etcd that was killed forgets the end of what it has acknowledged when it is told to go on alone, and gives the same revisions to
   * others: what the store has is what counts, and what etcd has beyond it.
   */
  async function recover(): Promise<void> {
    const me = identity()
    if (me === undefined) throw conflict('NO_CLUSTER', 'this node is in no cluster')
    // It has nothing of the cluster yet.
    if (me.mode === 'joining') return steps.becomeStandalone()
    if (!files.hasData()) throw conflict('NO_DATA', LOST)
    await running.stop()
    await steps.change((tx) => tx.update(tables.self).set({ mode: 'recovering' }).run())
    try {
      const once = await running.run(me, 'existing', true)
      await untilAnswers(once, (own) => own.get(META.id, { ms: 500 }), START_MS, closing)
      await takeWhatIsBeyond(once.etcd, me)
      await membership.forgetOthers(once.etcd, me.node)
      trustNobodyElse(files)
      await steps.change((tx) => fill(tx, once.etcd, me, []))
    } catch (error) {
      throw asUnavailable(error)
    } finally {
      await running.stop()
      const now = identity()
      if (now?.mode === 'member' && !closing.aborted) await steps.settle(await running.run(now, 'existing'), now)
    }
  }

  /** Not once it was filled anew: those are the rows that the store had. */
  async function takeWhatIsBeyond(etcd: Etcd, me: tables.Self): Promise<void> {
    const { kvs, revision } = await etcd.range(META.imported, { limit: 1 })
    if (kvs.every(({ modRevision }) => modRevision > me.revision)) return
    replica.start(etcd)
    try {
      await replica.caughtUp(revision)
    } catch (error) {
      const why = replica.failure()
      if (why === undefined) throw error
      // What no store takes is of no member's agent, and would be in the way of the way back.
      context.log.error({ err: why }, 'rows of the cluster that this node cannot store are given up')
    }
    await replica.stop()
  }

  return { found, recover }
}
