/** What may happen next at a member of the model: each is a step that the product does at once, or that happens to it. */
import { changeKey } from '../../plugins/cluster/keys.ts'
import type { ModelEtcd } from './etcd.ts'
import * as member from './member.ts'
import { Clash } from './rows.ts'

interface Loading {
  /** It is read as of this revision or a later one, which the own etcd must have. */
  since: number
  before: number
  revision?: number
}

export interface Node {
  readonly id: string
  store: member.Store
  /** Up to where its etcd is. */
  etcd: number
  /** It does everything seldom. */
  slow: boolean
  /** The next revision that the watch tells, and those that it has told and that are not in the store yet. */
  watch: { next: number; queue: number[] } | undefined
  /** It has everything up to here. */
  applied: number
  /** All rows are to be taken over anew. */
  anew: boolean
  loading: Loading | undefined
  job: member.Job | undefined
  /** What is asked until somebody answers, and what is known then not to come into force any more. */
  doubts: { fence: member.Job['fence']; of: member.Flight[]; flight?: member.Flight }[]
  /** It is no member now. */
  away: boolean
  /** It has begun to leave. */
  leaving: boolean
}

export interface World {
  etcd: ModelEtcd
  nodes: Node[]
  flying: Set<member.Flight>
  rules: member.Rules
  random: () => number
  /** What happened how often. */
  counts: Map<string, number>
  /** Nothing new is begun. */
  ending: boolean
  changes: number
}

/** How likely it is beside the others, and what happens then. */
export type Step = [weight: number, happen: () => void]

/** It has taken all rows over: until then it changes nothing. */
export const hasCome = ({ store }: Node): boolean => store.reached > 0

export const processOf = ({ reached }: member.Store) => ({
  applied: reached,
  watch: undefined,
  anew: false,
  loading: undefined,
  job: undefined,
  doubts: [],
})

/** The watch, and what it tells on its way into the store. */
export function* following(
  { etcd, random, rules, ending }: World,
  node: Node,
  pace: number,
  count: (what: string) => void,
): Generator<Step> {
  const { watch } = node
  if (node.loading || node.anew) return
  if (watch === undefined) {
    const start = () => {
      if (node.applied < etcd.compacted) node.anew = true
      else node.watch = { next: node.applied + 1, queue: [] }
    }
    yield [4 * pace, start]
    return
  }
  if (watch.next <= node.etcd) {
    const tell = () => {
      for (let many = 1 + Math.floor(random() * 4); many > 0 && watch.next <= node.etcd; many--)
        watch.queue.push(watch.next++)
    }
    yield [5 * pace, tell]
  }
  const cut = () => {
    node.watch = undefined
  }
  if (watch.queue.length === 0 && !ending) yield [0.2, cut]
  if (watch.queue.length === 0 || node.job) return
  const adopt = () => {
    const portion = watch.queue.slice(0, 1 + Math.floor(random() * 3))
    try {
      node.store = member.adopted(rules, node.id, node.store, portion.map(etcd.at))
    } catch (error) {
      if (!(error instanceof Clash)) throw error
      node.anew = true
      count('clashes')
      return
    }
    watch.queue.splice(0, portion.length)
    node.applied = Math.max(node.applied, portion.at(-1) ?? 0)
  }
  yield [5 * pace, adopt]
}

export function* takingOver({ etcd, rules }: World, node: Node, count: (what: string) => void): Generator<Step> {
  const { loading } = node
  if (loading === undefined) {
    const start = () => Object.assign(node, { watch: undefined, loading: { since: etcd.revision, before: -1 } })
    if (node.anew) yield [3, start]
    return
  }
  const { since, before, revision } = loading
  if (revision === undefined) {
    const read = () => {
      loading.revision = node.etcd
    }
    if (node.etcd >= since) yield [3, read]
    return
  }
  if (node.job) return
  const load = () => {
    const store = member.loaded(rules, node.id, node.store, { revision, before, keys: etcd.state(revision) })
    count('taken over anew')
    if (store === undefined) node.loading = { since: etcd.revision, before: revision }
    else Object.assign(node, { store, applied: revision, loading: undefined, anew: false })
  }
  yield [3, load]
}

/** An own change on its way. */
export function* carrying(world: World, node: Node, job: member.Job, count: (what: string) => void): Generator<Step> {
  const { random, rules, etcd, flying } = world
  const end = (what: string) => {
    node.job = undefined
    count(what)
  }
  const outrun = (revision: number, what: string) => {
    if (revision <= node.applied) throw new Error(`${node.id} has everything, and is refused what it builds on that`)
    end(what)
  }
  const made = (revision: number) => {
    // Else the disk is full: the watch brings it.
    if (random() < 0.97) node.store = member.committed(node.store, job, revision)
    end('made')
  }
  const doubt = () => {
    node.doubts.push({ fence: job.fence, of: [job.flight] })
    end('unknown')
  }
  const { flight, asking } = job
  if (asking === undefined) {
    const { answer } = flight
    if (answer && node.etcd >= answer.revision) {
      yield [6, () => (answer.succeeded ? made(answer.revision) : outrun(answer.revision, 'outrun'))]
    }
    const ask = () => {
      job.asking = { transaction: rules.fenceOf(job.fence) }
      flying.add(job.asking)
    }
    yield [answer ? 0.6 : 0.4, random() < 0.6 ? ask : doubt]
    return
  }
  const { answer } = asking
  if (answer && node.etcd >= answer.revision) {
    const found = etcd.state(node.etcd).get(changeKey(node.id))
    const outcome = rules.outcomeOf(job.rid, answer, found && { value: found.value, modRevision: found.revision })
    const settle = () => {
      if (outcome.is === 'made') return made(outcome.revision)
      if (flight.answer?.succeeded) throw new Error('a change is in force that was told not to be')
      flight.shutOut = true
      if (outcome.is === 'never') end('shut out')
      else outrun(outcome.revision, 'outrun after a question')
    }
    yield [6, settle]
  }
  yield [0.3, doubt]
}

/** What is asked until somebody answers. */
export function* doubting({ flying, rules }: World, node: Node, count: (what: string) => void): Generator<Step> {
  for (const doubt of node.doubts) {
    const { fence, of, flight } = doubt
    const over = () => {
      for (const each of of) each.shutOut = true
      node.doubts = node.doubts.filter((other) => other !== doubt)
      count('doubts ended')
    }
    if (member.changedIn(node.store, node.id) !== fence.changed) yield [4, over]
    else if (flight?.answer) yield [4, over]
    else if (flight === undefined || !flying.has(flight)) {
      const raise = () => {
        doubt.flight = { transaction: rules.fenceOf(fence) }
        flying.add(doubt.flight)
      }
      yield [2, raise]
    }
  }
}
