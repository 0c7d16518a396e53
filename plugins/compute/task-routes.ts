/** REST of the tasks, and how an answer names its task. */
import type { FastifyReply } from 'fastify'
import type { TypedApp } from '../../core/area.ts'
import { badRequest } from '../../core/errors.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import * as schema from './schemas.ts'
import type { TaskRow } from './tables.ts'
import { newestTasks, showTask, taskPath, toTask } from './task-rules.ts'

/** How many the list shows: unless it is told how many, and at most. */
const [USUAL, MOST] = [50, 500]

/** What an agent that died has left running, the next one fails at its start. */
const config = { after: 'start' as const }

export function taskRoutes(app: TypedApp): void {
  const { store } = app.agent
  app.get(
    '/tasks',
    {
      config,
      schema: { summary: 'The newest tasks', querystring: schema.TaskQuery, response: { 200: schema.TaskList } },
    },
    (request, reply) => {
      const { limit, state } = request.query
      const most = limit === undefined ? USUAL : readLimit(limit)
      return sendList<TaskRow>(reply, store, {
        key: 'tasks',
        page: (db, last) => (last === undefined ? newestTasks(db, most, state) : []),
        view: toTask,
      })
    },
  )
  app.get(
    '/tasks/:id',
    { config, schema: { summary: 'One task', params: schema.TaskParams, response: { 200: schema.TaskOne } } },
    (request, reply) => sendOne(request, reply, { task: showTask(store.read, request.params.id) }),
  )
}

/**
 * The answer of an operation on a machine, an image or a volume: as it is, and where its task is to be found. The handler
 * returns what this returns.
 */
export function withTask<T extends object>(reply: FastifyReply, answer: T, task: string): T & { task: string } {
  reply.header('location', taskPath(task))
  return { ...answer, task }
}

function readLimit(text: string): number {
  const limit = /^[1-9][0-9]{0,2}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > MOST) throw badRequest(`limit: must be 1 to ${MOST}`)
  return limit
}
