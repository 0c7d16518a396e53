/** Operator API keys. */
import type { OperatorKey } from '../../operator-keys.ts'
import { columns, path, type Verb } from '../verb.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'apikeys mint',
    summary: 'make an operator API key and print it, this once; it works at once',
    example: 'apikeys mint backup-job',
    arguments: [{ name: 'label', summary: 'what the key is for' }],
    async run({ call, argument, print, note }) {
      const answer = await call<OperatorKey & { key: string }>('POST', '/control/v1/apikeys', {
        label: argument('label'),
      })
      print(answer, answer.key)
      note(`Keep it: it is not shown again. To revoke it: stratumctl apikeys revoke ${answer.id}`)
    },
  },
  {
    path: 'apikeys list',
    summary: 'list the operator API keys, without their secrets',
    example: 'apikeys list',
    async run({ call, print }) {
      const answer = await call<{ keys: OperatorKey[] }>('GET', '/control/v1/apikeys')
      const rows = answer.keys.map(({ id, created_at, label }) => [id, created_at, label])
      print(answer, rows.length === 0 ? 'no operator keys' : columns([['ID', 'CREATED', 'LABEL'], ...rows]))
    },
  },
  {
    path: 'apikeys revoke',
    summary: 'revoke an operator API key, at once',
    example: 'apikeys revoke 3f9c2a71b0de',
    arguments: [{ name: 'id', summary: 'as `apikeys list` shows it' }],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/control/v1/apikeys/${argument('id')}`)
      print(answer, `operator key ${answer.id} revoked`)
    },
  },
]
