/** What others changed in the kernel behind the agent. */
import type { Outcome } from '../../state/drift.ts'
import { columns, type Verb } from '../verb.ts'

type Answer = Omit<Outcome, 'result'> & { status: 'clean' | 'repaired' | 'differs' }

export const verbs: readonly Verb[] = [
  {
    path: 'drift check',
    summary: 'compare the kernel with what is stored, at once, and repair what somebody else changed',
    example: 'drift check --dry-run',
    options: [
      { flags: '--dry-run', summary: 'only show; unless drift_interval is 0 the agent repairs it soon by itself' },
    ],
    async run({ call, options, print }) {
      const body = { dry_run: options['dry-run'] === true }
      const answer = await call<Answer>('POST', '/control/v1/drift', body)
      print(answer, lines(answer).join('\n'))
    },
  },
]

function lines({ status, added, changed, removed, differing, found }: Answer): string[] {
  if (status === 'clean') return ['the kernel holds what is stored']
  const done = `repaired: ${added} added, ${changed} changed, ${removed} removed`
  const rows = columns([['OBJECT', 'WAS'], ...found.map(({ key, state }) => [key, state])])
  const more = differing > found.length ? [`and ${differing - found.length} more`] : []
  return [status === 'differs' ? `differs: ${differing}, not repaired` : done, rows, ...more]
}
