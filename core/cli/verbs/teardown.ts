/** The one command that works without an agent, and only without: what it removes an agent would put back. */
import { Refused } from '../client.ts'
import { columns, UsageError, type Verb } from '../verb.ts'

const WHAT =
  'the nft tables, eBPF programs, links, addresses, routes and tunnels that the agent has made, and its processes for DNS, DHCP and BGP'

export const verbs: readonly Verb[] = [
  {
    path: 'teardown',
    summary: `take everything of ours off this node (${WHAT}); the stored state stays. Only while the agent is stopped`,
    example: 'teardown --yes',
    options: [{ flags: '--yes', summary: 'do it: traffic that rests on any of it ends' }],
    async run({ options, print, note }) {
      if (options.yes !== true) {
        throw new UsageError(
          `this takes ${WHAT} off the node, and ends the traffic that rests on them; what is stored stays, and the next start of the agent brings all of it back. To do it: stratumctl teardown --yes`,
        )
      }
      // Every start of the CLI loads this file; the data plane only who asks for it.
      const { teardown } = await import('../../teardown.ts')
      const answer = await teardown(process.env).catch((error: Error) => {
        throw new Refused(409, { error: error.message })
      })
      const { removed, problems } = answer
      const lines = Object.entries(removed).map(([what, count]) => [count, what] as const)
      print(answer, lines.length === 0 ? 'nothing of ours was there' : `removed:\n${columns(lines)}`)
      if (problems.length > 0) throw new Refused(409, { error: `not all could be removed: ${problems.join('; ')}` })
      note('The stored state is kept: the next start of the agent brings all of it back.')
    },
  },
]
