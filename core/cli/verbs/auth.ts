/** Source addresses that are blocked for failed authentication. */
import type { Block } from '../../gates/lockout.ts'
import { columns, path, type Verb } from '../verb.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'auth blocks',
    summary: 'list the addresses that are blocked for failed authentication',
    example: 'auth blocks',
    async run({ call, print }) {
      const answer = await call<{ blocks: Block[] }>('GET', '/control/v1/blocks')
      const rows = answer.blocks.map(({ address, until, failures }) => [address, until, failures])
      print(answer, rows.length === 0 ? 'no address is blocked' : columns([['ADDRESS', 'UNTIL', 'FAILURES'], ...rows]))
    },
  },
  {
    path: 'auth unblock',
    summary: 'lift the block of an address, at once',
    example: 'auth unblock 192.0.2.7',
    arguments: [{ name: 'address', summary: 'as `auth blocks` shows it' }],
    async run({ call, argument, print }) {
      const answer = await call<{ address: string }>('DELETE', path`/control/v1/blocks/${argument('address')}`)
      print(answer, `${answer.address} is not blocked any more`)
    },
  },
]
