/** Nodes of a cluster inside the test process, each with a store and an etcd of its own, on addresses of the loopback. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { sql } from 'drizzle-orm'
import { type Db, defineArea, type Rule } from '../../../core/area.ts'
import type { Collection } from '../../../core/replication.ts'
import { system } from '../../../core/state/events.ts'
import { openStore, type Store } from '../../../core/state/store.ts'
import { type BuiltAgent, buildAgent, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { makeOwn, type Own, shownBy } from '../authority.ts'
import { type Engine, openEngine } from '../engine.ts'

export interface TestNode {
  readonly engine: Engine
  readonly built: BuiltAgent
  readonly address: string
  readonly stateDir: string
  /** A mutation of the area `trial`. */
  change<T>(rule: (tx: Db) => T): Promise<T>
  /** All rows of the area `trial`, as text. */
  rows(): string
  /** Starts the agent again on the same state, after it was closed; these areas are off then. */
  start(disabled?: string): Promise<void>
  /** Ends the agent in order and starts it. */
  restart(): Promise<void>
  /** The next commits that bring a parent of that name fail, as on a full disk. */
  failCommits(many: number, name: string): void
  /** While the agent is closed: changes its store. */
  edit(statement: string): void
  /** While the agent is closed: etcd's data is gone. */
  loseData(): void
}

/** Long, because a machine under load may take its time; whatever waits, waits for the thing itself. */
const LONG_MS = 60_000
/** How often these nodes look at how the cluster stands. */
export const POLL_MS = 200

export async function until<T>(look: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
  for (const end = performance.now() + LONG_MS; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const found = await look()
    if (found) return found as NonNullable<T>
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`)
  }
}

export const PARENTS: Collection = {
  name: 'trial_parents',
  key: ['id'],
  columns: ['id', 'name'],
  unique: [['name']],
  follow: (_tx, before, after) => ({
    touch: [],
    events: [{ type: 'trial.followed', resource: `/trial/${(after ?? before)?.id}`, data: after ?? before }],
  }),
}
export const CHILDREN: Collection = {
  name: 'trial_children',
  key: ['parent', 'ip'],
  columns: ['parent', 'ip', 'owner'],
  parents: [{ collection: 'trial_parents', columns: ['parent'] }],
  serial: ({ owner }) => [`owner/${owner}`],
}

export function openTrialStore(stateDir: string, failing = { left: 0, name: '' }): Store {
  const store = openStore(stateDir)
  const tables = [
    "trial_parents (id integer primary key autoincrement, name text not null unique, note text not null default '')",
    'trial_children (parent integer not null, ip text not null, owner text not null, primary key (parent, ip))',
  ]
  for (const table of tables) store.write.run(sql.raw(`create table if not exists ${table}`))
  return {
    ...store,
    commit() {
      const brings = () => store.write.all(sql`select 1 from trial_parents where name = ${failing.name}`).length > 0
      if (failing.left > 0 && brings()) {
        failing.left--
        throw new Error('disk is full')
      }
      store.commit()
    },
  }
}

/** Node `n<index>` at 127.0.0.<index>. Connections between loopback addresses come from 127.0.0.1, which each certificate is for. */
export async function startNode(t: Scope, index: number): Promise<TestNode> {
  const stateDir = scratch(t)
  const address = `127.0.0.${index}`
  const failing = { left: 0, name: '' }
  let engine: Engine | undefined
  const start = (disabled = '') => {
    const here = pathToFileURL(join(import.meta.dirname, '..', 'index.js')).href
    const cluster = defineArea(here, {
      name: 'cluster',
      prefixes: ['/cluster'],
      routes() {},
      replicator(context) {
        const own = { self: `n${index}`, address: () => address, peerPort: 7074, clientPort: 7080 + index }
        engine = openEngine(context, { ...own, stateDir, pollMs: POLL_MS })
        return engine.replicator
      },
      async start() {
        await engine?.start()
        return () => engine?.close()
      },
    })
    const trial = defineArea(pathToFileURL(join(import.meta.dirname, 'trial', 'index.js')).href, {
      name: 'trial',
      prefixes: ['/trial'],
      routes() {},
      replicates: [PARENTS, CHILDREN],
    })
    const only = ['node']
    return buildAgent(t, {
      stateDir,
      only,
      extraAreas: [cluster, trial],
      config: { disabled_areas: disabled },
      openStore: (dir) => openTrialStore(dir, failing),
    })
  }
  let built = await start()
  const all = (table: string) => built.agent.store.read.all(sql.raw(`select * from ${table} order by 1, 2`))
  return {
    get engine() {
      if (engine === undefined) throw new TypeError('no engine')
      return engine
    },
    get built() {
      return built
    },
    address,
    stateDir,
    async change(work) {
      const rule: Rule<Awaited<ReturnType<typeof work>>> = async (tx) => ({
        result: await work(tx),
        touch: [],
        events: [],
      })
      return (await built.agent.pipeline.mutate('trial', system('test'), rule)).result
    },
    rows: () => JSON.stringify([all('trial_parents'), all('trial_children')]),
    async start(disabled) {
      built = await start(disabled)
    },
    async restart() {
      await built.agent.close()
      built = await start()
    },
    failCommits(left, name) {
      Object.assign(failing, { left, name })
    },
    edit(statement) {
      const store = openStore(stateDir)
      store.write.run(sql.raw(statement))
      store.close()
    },
    loseData: () => rmSync(join(stateDir, 'etcd'), { recursive: true }),
  }
}

export const ownOf = ({ engine, address }: TestNode): Promise<Own> =>
  makeOwn('test', { node: engine.self, address }, new Date())

/** Has `node` become a member by way of `by`. */
export async function enter(by: TestNode, node: TestNode): Promise<void> {
  const own = await ownOf(node)
  const admission = await by.engine.certify(node.engine.self, node.address, shownBy(own))
  await node.engine.enter(admission, own, () => by.engine.expel(node.engine.self))
}

export const makeParent = (name: string) => (tx: Db) =>
  Number(tx.run(sql`insert into trial_parents (name) values (${name})`).lastInsertRowid)

/** `done`, the status of the refusal, or the error. */
export const statusOf = (work: Promise<unknown> | undefined): Promise<string | number> =>
  Promise.resolve(work).then(
    () => 'done',
    (error: { status?: number }) => error.status ?? String(error),
  )

export const untilSame = (nodes: readonly TestNode[]): Promise<boolean> =>
  until(() => new Set(nodes.map((node) => node.rows())).size === 1, 'all have the same rows')
