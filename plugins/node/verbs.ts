import type { Static } from 'typebox'
import { columns, type Verb } from '../../core/cli/verb.ts'
import type { Status } from './schemas.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'status',
    summary: 'show the state of the agent: version, uptime, acceleration',
    example: 'status',
    async run({ call, print }) {
      const answer = await call<Static<typeof Status>>('GET', '/api/v1/status')
      const { status, version, uptime, warnings = [], acceleration } = answer
      print(
        answer,
        columns([
          ['status', status],
          ['version', version],
          ['uptime', uptime],
          ...warnings.map((warning) => ['warning', warning]),
          ['acceleration', `${acceleration.mode}: ${acceleration.summary}`],
        ]),
      )
    },
  },
]
