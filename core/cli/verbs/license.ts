/** The licence of this node. */
import { readFileSync } from 'node:fs'
import type { LicenceView } from '../../licence/state.ts'
import { columns, UsageError, type Verb, type VerbContext } from '../verb.ts'

interface Shown {
  license: LicenceView
  reason?: string
}

export const verbs: readonly Verb[] = [
  {
    path: 'license install',
    summary: 'install a licence file, at once',
    example: 'license install /root/node7.license',
    arguments: [{ name: 'file', summary: 'the licence as the vendor signed it' }],
    async run(context) {
      const text = read(context.argument('file'))
      show(context, await context.call<Shown>('PUT', '/control/v1/license', { text }))
    },
  },
  {
    path: 'license evaluate',
    summary: 'begin the 30-day evaluation that every node has once',
    example: 'license evaluate',
    run: async (context) => show(context, await context.call<Shown>('POST', '/control/v1/license/evaluate')),
  },
  {
    path: 'license status',
    summary: 'show the installed licence',
    example: 'license status',
    run: async (context) => show(context, await context.call<Shown>('GET', '/control/v1/license')),
  },
]

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}

function show({ print }: VerbContext, answer: Shown): void {
  const { license, reason } = answer
  if (!license.installed) {
    print(answer, `no licence is installed${reason === undefined ? '' : `: ${reason}`}`)
    return
  }
  const features = Object.entries(license.features).flatMap(([name, included]) => (included ? [name] : []))
  const gbps = license.max_bandwidth_gbps
  print(
    answer,
    columns([
      ['state', license.state],
      ['plan', license.plan],
      ['serial', license.serial_number],
      ['valid until', `${license.valid_until} (${license.days_remaining} days)`],
      ['changes', license.mutations_allowed ? 'allowed' : 'refused'],
      ['bandwidth', gbps === 0 ? 'uncapped' : `${gbps} Gbit/s`],
      ['features', features.join(', ')],
      ...(reason === undefined ? [] : [['attention', reason]]),
    ]),
  )
}
