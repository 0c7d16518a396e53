/** Random changes through the API, each carried out on the model as well. */

import type { Call } from '../../../test/agent.ts'
import { fc } from '../../../test/property.ts'
import { type Input, input, type ModelRule, type Window, window } from './model.ts'

export interface Model {
  rules: ModelRule[]
  deny: boolean
}

export type Change =
  | { kind: 'create'; input: Input }
  /** `stay`: at the same level and priority, so that only the place among equals keeps the order. */
  | { kind: 'replace'; at: number; input: Input; stay: boolean }
  | { kind: 'delete'; at: number }
  | { kind: 'default'; deny: boolean }
  | { kind: 'batch'; inputs: Input[]; bad: boolean; atomic: boolean }
  | { kind: 'schedule'; at: number; window: Window | undefined }
  | { kind: 'invalid'; at: number; put: boolean }

const BAD = { action: 'reject' }

/** Changes of every kind; a batch has at most `batch` rules. */
export function change(batch: number): fc.Arbitrary<Change> {
  const at = fc.nat(999)
  const of = <K extends Change['kind'], P extends object>(kind: K, parts: { [Key in keyof P]: fc.Arbitrary<P[Key]> }) =>
    fc.record({ kind: fc.constant(kind), ...parts })
  // Each record is built with the fields of its kind; TypeScript cannot join them by itself.
  return fc.oneof(
    { weight: 8, arbitrary: of('create', { input }) },
    { weight: 6, arbitrary: of('replace', { at, input, stay: fc.boolean() }) },
    { weight: 5, arbitrary: of('delete', { at }) },
    { weight: 2, arbitrary: of('default', { deny: fc.boolean() }) },
    {
      weight: 2,
      arbitrary: of('batch', {
        inputs: fc.array(input, { minLength: 1, maxLength: batch, size: 'max' }),
        bad: fc.boolean(),
        atomic: fc.boolean(),
      }),
    },
    { weight: 3, arbitrary: of('schedule', { at, window: fc.option(window, { nil: undefined }) }) },
    { weight: 1, arbitrary: of('invalid', { at, put: fc.boolean() }) },
  ) as fc.Arbitrary<Change>
}

/** Carries out `change` over REST (`control` for schedules) and on `model`. Throws when the answer is not the expected one. */
export async function carryOut(model: Model, change: Change, { call, control }: { call: Call; control: Call }) {
  const expect = async (status: number, caller: Call, method: string, path: string, body?: unknown) => {
    const answer = await caller(method, path, body)
    if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}, not ${status}`)
    return answer.body as { rule: { id: number }; results: { rule?: { id: number } }[] }
  }
  const target = 'at' in change ? model.rules[change.at % Math.max(1, model.rules.length)] : undefined
  const path = `/api/v1/rules/${target?.id ?? 1_000_000}`
  const known = target === undefined ? 404 : 200
  switch (change.kind) {
    case 'create': {
      const { rule } = await expect(201, call, 'POST', '/api/v1/rules', change.input)
      model.rules.push({ id: rule.id, place: rule.id, input: change.input })
      return
    }
    case 'replace': {
      const stay =
        change.stay && target ? { priority: target.input.priority ?? 0, level: target.input.level ?? '' } : {}
      const { rule } = await expect(known, call, 'PUT', path, { ...change.input, ...stay })
      if (target) Object.assign(target, { id: rule.id, input: { ...change.input, ...stay } })
      return
    }
    case 'delete':
      await expect(known, call, 'DELETE', path)
      model.rules = model.rules.filter((rule) => rule !== target)
      return
    case 'default':
      await expect(200, call, 'PUT', '/api/v1/rules/default', { default_action: change.deny ? 'deny' : 'allow' })
      model.deny = change.deny
      return
    case 'batch':
      return carryOutBatch(model, change, (status, body) => expect(status, call, 'POST', '/api/v1/rules/batch', body))
    case 'schedule': {
      const schedule = `/control/v1/firewall/rules/${target?.id ?? 1_000_000}/schedule`
      await expect(known, control, change.window ? 'PUT' : 'DELETE', schedule, change.window)
      if (target) target.window = change.window
      return
    }
    case 'invalid':
      await expect(400, call, change.put ? 'PUT' : 'POST', change.put ? path : '/api/v1/rules', BAD)
  }
}

async function carryOutBatch(
  model: Model,
  { inputs, bad, atomic }: Change & { kind: 'batch' },
  send: (status: number, body: object) => Promise<{ results: { rule?: { id: number } }[] }>,
): Promise<void> {
  const rules = bad ? [...inputs, BAD] : inputs
  const refused = bad && atomic
  const { results } = await send(refused ? 400 : 200, { rules, atomic })
  if (refused) return
  for (const [at, input] of inputs.entries()) {
    const id = results[at]?.rule?.id
    if (id === undefined) throw new Error(`rule ${at} of the batch was not created`)
    model.rules.push({ id, place: id, input })
  }
}
