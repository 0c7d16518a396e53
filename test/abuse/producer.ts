/** Changes of the firewall over the real pipeline, and which events they must have become, in order. */
import { setTimeout as wait } from 'node:timers/promises'
import type { RunningAgent } from '../agent.ts'
import type { Dice } from './random.ts'

export interface Expected {
  type: string
  subject: number
}

export interface Producer {
  /** One event a committed change, in the order of the commits. */
  readonly committed: readonly Expected[]
  /** A batch of `size` rules. Throws what the agent should not have answered. */
  batch(size: number): Promise<void>
  /** A batch of at most `most` rules, or now and then a single change. */
  change(most: number): Promise<void>
  /** Sends a batch of `size` and kills the agent meanwhile; starts it anew, and looks what has become of the batch. */
  changeAndKill(size: number): Promise<void>
}

type Rule = { id: number; comment?: string }

/** `padding` makes the rules, and so the events, larger. */
export function producer(agent: RunningAgent, dice: Dice, padding = ''): Producer {
  const committed: Expected[] = []
  const present: number[] = []
  let batches = 0

  const rules = (size: number, comment: string) =>
    Array.from({ length: size }, () => ({
      action: 'drop',
      protocol: 'tcp',
      dest_ip: `198.51.100.${dice.between(1, 254)}`,
      dest_port: dice.between(1, 65535),
      comment,
    }))

  function created(ids: readonly number[]): void {
    for (const subject of ids) committed.push({ type: 'rule.created', subject })
    present.push(...ids)
  }

  async function create(size: number, comment: string): Promise<number[]> {
    const { status, body, text } = await agent.call('POST', '/api/v1/rules/batch', { rules: rules(size, comment) })
    if (status !== 200 || body.created !== size) throw new Error(`batch: ${status} ${text.slice(0, 200)}`)
    return (body.results as { rule: Rule }[]).map(({ rule }) => rule.id)
  }

  const nextComment = () => `batch ${++batches} ${padding}`.trim()
  const batch = async (size: number) => created(await create(size, nextComment()))

  async function single(): Promise<void> {
    const at = dice.between(0, present.length - 1)
    const subject = present[at] ?? 0
    const path = `/api/v1/rules/${subject}`
    const isDeleted = dice.next() < 0.5
    const { status, body, text } = isDeleted
      ? await agent.call('DELETE', path)
      : await agent.call('PUT', path, { action: 'accept', dest_port: dice.between(1, 65535) })
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`)
    // A replaced rule is a new one.
    const now = isDeleted ? [] : [(body.rule as Rule).id]
    committed.push({ type: isDeleted ? 'rule.deleted' : 'rule.updated', subject: now[0] ?? subject })
    present.splice(at, 1, ...now)
  }

  return {
    committed,
    batch,
    change: (most) => (present.length > 0 && dice.next() < 0.5 ? single() : batch(dice.between(1, most))),
    async changeAndKill(size) {
      const comment = nextComment()
      const answer = create(size, comment).then(created, () => 'unanswered' as const)
      await wait(dice.between(0, 60))
      await agent.kill('SIGKILL')
      const outcome = await answer
      await agent.restart()
      if (outcome !== 'unanswered') return
      const { body } = await agent.call('GET', '/api/v1/rules')
      const ids = (body.rules as Rule[]).filter((rule) => rule.comment === comment).map(({ id }) => id)
      if (ids.length !== 0 && ids.length !== size) throw new Error(`${ids.length} of a batch of ${size} are there`)
      created(ids.sort((a, b) => a - b))
    },
  }
}
