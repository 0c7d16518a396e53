/** The local configuration of this node. */
import type { Source } from '../../config.ts'
import { columns, path, type Verb, type VerbArgument } from '../verb.ts'

interface Setting {
  key: string
  value: string
  source: Source
}
interface Changed {
  key: string
  effective: 'now' | 'restart'
}

const KEY: VerbArgument = { name: 'key', summary: 'as `config list` shows it' }
const when = ({ effective }: Changed) => (effective === 'now' ? 'effective now' : 'effective at restart of the agent')

export const verbs: readonly Verb[] = [
  {
    path: 'config set',
    summary: 'set a configuration key on this node; lists are comma-separated; credentials are refused',
    example: 'config set api_bind_address 192.0.2.10',
    arguments: [KEY, { name: 'value', summary: "the new value; '' is an empty one", mayBeEmpty: true }],
    async run({ call, argument, print }) {
      const body = { value: argument('value') }
      const answer = await call<Changed>('PUT', path`/control/v1/config/${argument('key')}`, body)
      print(answer, `${answer.key}: ${when(answer)}`)
    },
  },
  {
    path: 'config get',
    summary: 'print the value of a configuration key',
    example: 'config get api_allowed_ips',
    arguments: [KEY],
    async run({ call, argument, print }) {
      const answer = await call<Setting>('GET', path`/control/v1/config/${argument('key')}`)
      print(answer, answer.value)
    },
  },
  {
    path: 'config list',
    summary: 'list all configuration keys with their values and where these come from',
    example: 'config list',
    async run({ call, print }) {
      const answer = await call<{ config: Setting[] }>('GET', '/control/v1/config')
      const rows = answer.config.map(({ key, value, source }) => [key, source, value])
      print(answer, columns([['KEY', 'SOURCE', 'VALUE'], ...rows]))
    },
  },
  {
    path: 'config unset',
    summary: 'forget the local value of a configuration key',
    example: 'config unset api_bind_address',
    arguments: [KEY],
    async run({ call, argument, print }) {
      const answer = await call<Changed>('DELETE', path`/control/v1/config/${argument('key')}`)
      print(answer, `${answer.key}: local value removed, ${when(answer)}`)
    },
  },
]
