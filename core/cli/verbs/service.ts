/** The network services: REST, gRPC health, event stream. */
import { remedyForTrouble } from '../../remedies.ts'
import type { ServiceStatus } from '../../services.ts'
import type { Verb } from '../verb.ts'

interface Services {
  /** What the agent does at its start; absent once it has started. */
  starting?: string
  services: ServiceStatus[]
  areas: { name: string; reason?: string }[]
  facilities: { name: string; available: boolean; detail: string }[]
  troubles: string[]
  /** An agent before this command, at an upgrade, tells `troubles` alone. */
  amiss?: { what: string; remedy?: string }[]
}

export const verbs: readonly Verb[] = [
  {
    path: 'service rest',
    summary: 'switch the network services on or off, at once; the control socket and the data plane are not touched',
    example: 'service rest on',
    arguments: [{ name: 'switch', summary: 'on or off', choices: ['on', 'off'] }],
    async run({ call, argument, print }) {
      const answer = await call<Services>('PUT', '/control/v1/services/rest', { on: argument('switch') === 'on' })
      print(answer, serviceLines(answer).join('\n'))
    },
  },
  {
    path: 'service status',
    summary:
      'say for each network service whether it listens, what the data plane can do, which areas are off and why, and what is amiss',
    example: 'service status',
    async run({ call, print }) {
      const answer = await call<Services>('GET', '/control/v1/services')
      print(
        answer,
        [
          ...startLines(answer),
          ...serviceLines(answer),
          ...facilityLines(answer),
          ...areaLines(answer),
          ...troubleLines(answer),
        ].join('\n'),
      )
    },
  },
]

const startLines = ({ starting }: Services) => (starting === undefined ? [] : [starting])

const serviceLines = ({ services }: Services) =>
  services.map(({ name, listening, off }) =>
    listening === undefined ? `${name}: off: ${off ?? 'unknown'}` : `${name}: listening ${listening}`,
  )

/** What the data plane can do on this node, and why not. */
const facilityLines = ({ facilities }: Services) =>
  facilities.map(({ name, available, detail }) => `data plane ${name}: ${available ? '' : 'off: '}${detail}`)

const areaLines = ({ areas }: Services) =>
  areas.flatMap(({ name, reason }) => (reason === undefined ? [] : [`${name}: off: ${reason}`]))

const troubleLines = ({ troubles, amiss = troubles.map((what) => ({ what })) }: Services) =>
  amiss.flatMap((trouble) => [`trouble: ${trouble.what}`, `  do: ${remedyForTrouble(trouble)}`])
