/** The local configuration of this node. */
import { join } from 'node:path'
import type { Source } from '../../config.ts'
import type { Places } from '../../environment.ts'
import { lockState } from '../../state/lock.ts'
import { openOverrides } from '../../state/overrides.ts'
import { Unreachable } from '../client.ts'
import { columns, path, type Verb, type VerbArgument } from '../verb.ts'

interface Setting {
  key: string
  value: string
  source: Source
}
interface Changed {
  key: string
  effective: 'now' | 'restart'
  remark?: string
}

const KEY: VerbArgument = { name: 'key', summary: 'as `config list` shows it' }
const when = ({ effective }: Changed) => (effective === 'now' ? 'effective now' : 'effective at restart of the agent')

/** An agent that is just ending has this long. */
const PATIENCE_MS = 5000

/** In the file that no agent has open now. @throws Error when an agent runs after all, or the file cannot be used */
async function unsetAlone({ stateDir }: Places, key: string): Promise<Changed> {
  const lock = await lockState(stateDir, PATIENCE_MS)
  try {
    const overrides = openOverrides(join(stateDir, 'overrides.json'))
    if (!Object.hasOwn(overrides.read().config, key)) throw new Error(`${key} has no local value`)
    overrides.change(({ config }) => void delete config[key])
    return { key, effective: 'restart' }
  } finally {
    lock.release()
  }
}

export const verbs: readonly Verb[] = [
  {
    path: 'config set',
    summary: 'set a configuration key on this node; lists are comma-separated; credentials are refused',
    example: 'config set api_bind_address 192.0.2.10',
    arguments: [KEY, { name: 'value', summary: "the new value; '' is an empty one", mayBeEmpty: true }],
    async run({ call, argument, print, note }) {
      const body = { value: argument('value') }
      const answer = await call<Changed>('PUT', path`/control/v1/config/${argument('key')}`, body)
      print(answer, `${answer.key}: ${when(answer)}`)
      if (answer.remark !== undefined) note(answer.remark)
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
    summary: 'forget the local value of a configuration key, also while no agent runs',
    example: 'config unset api_bind_address',
    arguments: [KEY],
    async run({ call, argument, places, print }) {
      const key = argument('key')
      const answer = await call<Changed>('DELETE', path`/control/v1/config/${key}`).catch((error: unknown) => {
        if (error instanceof Unreachable) return unsetAlone(places, key)
        throw error
      })
      print(answer, `${answer.key}: local value removed, ${when(answer)}`)
    },
  },
]
