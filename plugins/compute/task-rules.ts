/**
 * Domain rules of the tasks: the record of an operation that may outlast its request. A task runs until it succeeds or
 * fails, and is then one of the last that are kept. Knows neither Fastify nor the kernel.
 */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { conflict, notFound } from '../../core/errors.ts'
import type { Task, TaskState } from './schemas.ts'
import type { TaskRow } from './tables.ts'
import { taskQueries } from './task-queries.ts'

/** Why the tasks of an agent that died are over. */
export const INTERRUPTED = 'the agent stopped before this was done; look at what is there and start it again'

export interface TaskDraft {
  /** `task-…`, never used before. */
  id: string
  /** What is done to what: `vm.create`. */
  kind: string
  /** Path of the thing that it is done to. */
  resource: string
  /** Whose that thing is; without it the operator's own. */
  tenantId?: string
}

/** When a task ends (RFC 3339 UTC), and how many that have ended are kept. */
export interface Ending {
  at: string
  keep: number
}

/** Records an operation that begins now, with progress 0. Whoever begins a task ends it, in this or a later transaction. */
export function beginTask(tx: Db, draft: TaskDraft, at: string): Change<Task> {
  const task = add(tx, draft, at)
  return { result: task, touch: [], events: [event('created', task, task)] }
}

/** Says how far a task is: 0 to 100, whole numbers. @throws ApiError 404, 409 when it is over */
export function progress(tx: Db, id: string, percent: number): Change<Task> {
  const before = running(tx, id)
  taskQueries(tx).advance.run({ id, progress: Math.min(100, Math.max(0, Math.trunc(percent))) })
  const task = showTask(tx, id)
  return { result: task, touch: [], events: task.progress === before.progress ? [] : [event('updated', task, task)] }
}

/** Ends a task well. `result` must hold no secret. @throws ApiError 404, 409 when it is over */
export function finishTask(tx: Db, id: string, ending: Ending, result?: object): Change<Task> {
  return end(tx, running(tx, id), 'succeeded', ending, { result })
}

/** Ends a task that went wrong; `error` is one sentence for the operator. @throws ApiError 404, 409 when it is over */
export function failTask(tx: Db, id: string, ending: Ending, error: string): Change<Task> {
  return end(tx, running(tx, id), 'failed', ending, { error })
}

/** Records an operation that is done in this very transaction. One event tells of it. */
export function recordTask(tx: Db, draft: TaskDraft, ending: Ending, result?: object): Change<Task> {
  add(tx, draft, ending.at)
  const { result: task } = finishTask(tx, draft.id, ending, result)
  return { result: task, touch: [], events: [event('created', task, task)] }
}

/** Fails what an agent had begun that is no more. To be called before anything begins. */
export function failInterrupted(tx: Db, ending: Ending): Change<Task[]> {
  const ended = taskQueries(tx)
    .running.all()
    .map(({ id }) => failTask(tx, id, ending, INTERRUPTED))
  return { result: ended.map(({ result }) => result), touch: [], events: ended.flatMap(({ events }) => events) }
}

/** @throws ApiError 404 */
export const showTask = (db: Db, id: string): Task => toTask(certainTask(db, id))

/** The newest, of one state if asked for. */
export function newestTasks(db: Db, limit: number, state?: TaskState): TaskRow[] {
  const q = taskQueries(db)
  return state === undefined ? q.newest.all({ limit }) : q.newestIn.all({ limit, state })
}

export const toTask = (row: TaskRow): Task => ({
  id: row.id,
  kind: row.kind,
  // Only this file writes states.
  state: row.state as TaskState,
  resource: row.resource,
  progress: row.progress,
  created_at: row.startedAt,
  started_at: row.startedAt,
  ...(row.finishedAt && { finished_at: row.finishedAt }),
  ...(row.error && { error: row.error }),
  ...(row.result && { result: JSON.parse(row.result) }),
  ...(row.tenantId && { tenant_id: row.tenantId }),
})

function add(tx: Db, { tenantId = '', ...draft }: TaskDraft, at: string): Task {
  taskQueries(tx).add.run({ ...draft, tenantId, startedAt: at })
  return showTask(tx, draft.id)
}

function end(
  tx: Db,
  row: TaskRow,
  state: 'succeeded' | 'failed',
  { at, keep }: Ending,
  { error = '', result }: { error?: string; result?: object | undefined },
): Change<Task> {
  const q = taskQueries(tx)
  const ended = (q.lastEnded.get()?.ended ?? 0) + 1
  q.end.run({
    id: row.id,
    state,
    progress: state === 'succeeded' ? 100 : row.progress,
    finishedAt: at,
    error,
    result: result === undefined ? '' : JSON.stringify(result),
    ended,
  })
  const task = showTask(tx, row.id)
  q.forget.run({ ended: ended - keep })
  return { result: task, touch: [], events: [event('state_changed', task, { from: row.state, to: state, task })] }
}

function running(tx: Db, id: string): TaskRow {
  const row = certainTask(tx, id)
  if (row.state !== 'running') throw conflict('TASK_ENDED', `task ${id} has ${row.state} and cannot change any more`)
  return row
}

function certainTask(db: Db, id: string): TaskRow {
  const row = taskQueries(db).task.get({ id })
  if (row === undefined) throw notFound('task', id.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

const event = (verb: 'created' | 'updated' | 'state_changed', { id }: Task, data: object): EventDraft => ({
  type: TYPES[verb],
  area: 'compute',
  resource: taskPath(id),
  data,
})
const TYPES = { created: 'task.created', updated: 'task.updated', state_changed: 'task.state_changed' } as const

export const taskPath = (id: string): string => `/api/v1/tasks/${id}`
