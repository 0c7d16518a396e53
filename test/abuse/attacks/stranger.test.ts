/** Everything that a stranger sends to the API port is refused, and the agent serves on. */
import t from 'tap'
import { startAgent } from '../../agent.ts'
import { netns, requireRoot } from '../../netns.ts'
import { startRaw } from './raw.ts'
import { controls, requests, TOKEN_MARK } from './stranger.ts'

t.test('auth-01 conv-21 a stranger gets nothing out of the API port, however the request is written', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t, 'st')
  // The rows have credentials that are wrong on purpose, and none of them may end in a block.
  const agent = await startAgent(t, { ns, config: { api_auth_fail_limit: '1000', api_rate_burst: '1000' } })
  const raw = startRaw((command, args, options) => ns.spawn(command, args, options))
  const rows = [...controls, ...requests, ...controls]
  const told = await raw.ask(
    '127.0.0.1',
    7070,
    rows.map(({ send }) => send.replaceAll(TOKEN_MARK, agent.token)),
  )
  for (const [n, { what, expected }] of rows.entries()) t.match(told[n], expected, `${what}: ${told[n] || 'closed'}`)
  t.equal(agent.logged.filter(({ level }) => level === 'error' || level === 50).length, 0, 'no error was logged')
})
