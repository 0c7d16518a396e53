/** The node API token. Its value leaves the agent once, when generated, and enters by standard input only. */
import { UsageError, type Verb } from '../verb.ts'

interface Stored {
  note: string
}

export const verbs: readonly Verb[] = [
  {
    path: 'api-token generate',
    summary: 'make a new API token and print it, this once; takes effect at the next start of the agent',
    example: 'api-token generate',
    async run({ call, print, note }) {
      const answer = await call<Stored & { token: string }>('POST', '/control/v1/token/generate')
      print(answer, answer.token)
      note(`Keep it: it is not shown again. It ${answer.note}.`)
    },
  },
  {
    path: 'api-token set',
    summary:
      'store an API token (32 characters or more) read from standard input; takes effect at the next start of the agent',
    example: 'api-token set < token-file',
    async run({ call, stdin, print }) {
      const token = (await stdin('API token')).trim()
      if (token === '') throw new UsageError('standard input holds no token')
      const answer = await call<Stored>('PUT', '/control/v1/token', { token })
      print(answer, `API token stored: it ${answer.note}`)
    },
  },
  {
    path: 'api-token status',
    summary: 'say whether an API token is set; never prints it',
    example: 'api-token status',
    async run({ call, print }) {
      const answer = await call<{ set: boolean }>('GET', '/control/v1/token')
      print(answer, answer.set ? 'an API token is set' : 'no API token is set')
    },
  },
  {
    path: 'api-token clear',
    summary: 'remove the API token; the API answers until the next start of the agent, and not after it',
    example: 'api-token clear',
    async run({ call, print }) {
      const answer = await call<Stored>('DELETE', '/control/v1/token')
      print(answer, `API token removed: this ${answer.note}`)
    },
  },
]
