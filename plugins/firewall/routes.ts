/** REST of the firewall. */
import { Compile } from 'typebox/compile'
import type { Db, Member, TypedApp } from '../../core/area.ts'
import { untilCommit } from '../../core/state/until-commit.ts'
import { sendOne } from '../../core/transport/etag.ts'
import { sendList } from '../../core/transport/list.ts'
import { carryOut } from '../../core/transport/mutation.ts'
import { violationText } from '../../core/transport/problems.ts'
import { BatchRefusal, createBatch, type ItemCheck } from './batch.ts'
import { type Limit, rulesLimit } from './limit.ts'
import { defaultAction, rankedPage } from './queries.ts'
import { createRule, deleteRule, find, replaceRule, setDefault, toRule } from './rules.ts'
import * as schema from './schemas.ts'
import type { Row } from './tables.ts'

const AREA = 'firewall'
const strict = { config: { strict: true } }
const ruleId = ({ params }: { params: unknown }): string => (params as { id: string }).id
/** What a GET answers, and what If-Match is held against. */
const oneRule = (id: string) => (db: Db) => toRule(find(db, id))
const theDefault = (db: Db) => ({ default_action: defaultAction(db) })

export function routes(app: TypedApp): void {
  const { store, outbox } = app.agent
  const shown = untilCommit(outbox, (id) => oneRule(id)(store.read))
  const limit = () => rulesLimit(app.agent)
  const members = (tx: Db) => [...app.agent.members].flatMap((all) => [...all(tx)])

  app.get(
    '/rules',
    {
      schema: {
        summary: 'All rules, in the order in which packets meet them',
        querystring: schema.RuleQuery,
        response: { 200: schema.RuleList },
      },
    },
    (request, reply) => {
      const { chain } = request.query
      return sendList<Row>(reply, store, {
        key: 'rules',
        page: rankedPage,
        // Every rule applies in prerouting, those that an earlier release kept under another name included.
        view: (row) => (chain === undefined || chain === 'prerouting' ? toRule(row) : undefined),
      })
    },
  )
  app.post(
    '/rules',
    { ...strict, schema: { summary: 'Add a rule', body: schema.RuleInput, response: { 201: schema.RuleCreated } } },
    async (request, reply) => {
      const created = await carryOut(request, reply, AREA, (tx) => createRule(tx, request.body, limit(), members(tx)))
      return reply.code(201).send(created)
    },
  )
  app.get(
    '/rules/default',
    { schema: { summary: 'The default action', response: { 200: schema.Default } } },
    (request, reply) => sendOne(request, reply, theDefault(store.read)),
  )
  app.put(
    '/rules/default',
    {
      ...strict,
      schema: {
        summary: 'Set the default action',
        body: schema.DefaultInput,
        response: { 200: schema.DefaultUpdated },
      },
    },
    (request, reply) => carryOut(request, reply, AREA, (tx) => setDefault(tx, request.body.default_action), theDefault),
  )
  app.get('/rules/:id', { schema: { summary: 'One rule', response: { 200: schema.Rule } } }, (request, reply) =>
    sendOne(request, reply, shown(ruleId(request))),
  )
  app.put(
    '/rules/:id',
    { ...strict, schema: { summary: 'Replace a rule', body: schema.RuleInput, response: { 200: schema.RuleUpdated } } },
    (request, reply) => {
      const id = ruleId(request)
      return carryOut(request, reply, AREA, (tx) => replaceRule(tx, id, request.body, members(tx)), oneRule(id))
    },
  )
  app.delete(
    '/rules/:id',
    { schema: { summary: 'Delete a rule', response: { 200: schema.RuleDeleted } } },
    (request, reply) => {
      const id = ruleId(request)
      return carryOut(request, reply, AREA, (tx) => deleteRule(tx, id), oneRule(id))
    },
  )
  batchRoute(app, (tx) => ({ limit: limit(), members: members(tx) }))
}

function batchRoute(app: TypedApp, bounds: (tx: Db) => { limit: Limit; members: Member[] }): void {
  const check = itemCheck()
  app.post(
    '/rules/batch',
    {
      ...strict,
      schema: {
        summary: 'Add several rules',
        body: schema.BatchInput,
        response: { 200: schema.BatchOutcome, 400: schema.BatchRefused },
      },
    },
    async (request, reply) => {
      const { rules, atomic = false } = request.body
      try {
        return await carryOut(request, reply, AREA, (tx) => createBatch(tx, rules, { atomic, ...bounds(tx), check }))
      } catch (error) {
        if (!(error instanceof BatchRefusal)) throw error
        return reply.code(400).send({ error: error.message, ...error.outcome })
      }
    },
  )
}

/** The schema of the field of a rule at a JSON pointer; the rule's own for ''. */
function fieldAt(pointer: string): object {
  const fields: ReadonlyMap<string, object> = new Map(Object.entries(schema.RuleInput.properties))
  return pointer === '' ? schema.RuleInput : (fields.get(pointer.slice(1)) ?? {})
}

function itemCheck(): ItemCheck {
  const validator = Compile(schema.RuleInput)
  return (item) => {
    if (validator.Check(item)) return undefined
    const violations = validator.Errors(item).map((error) => {
      const params = error.params as Record<string, unknown>
      // TypeBox lists all missing or unknown keys at once where Ajv names the first.
      const first = (key: string) => [params[key]].flat()[0]
      return {
        keyword: error.keyword,
        instancePath: error.instancePath,
        parentSchema: fieldAt(error.instancePath),
        params: {
          ...params,
          missingProperty: first('requiredProperties'),
          additionalProperty: first('additionalProperties'),
        },
      }
    })
    return violationText(violations, 'rule')
  }
}
