/** A responder that somebody has stopped: what becomes of changes, and who waits for it. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { startAgent } from '../../../test/agent.ts'
import { netns, requireRoot } from '../../../test/netns.ts'

requireRoot(t)

t.test(
  'a change that meets a stopped responder succeeds on its successor, and those behind it do not wait',
  async (t) => {
    const agent = await startAgent(t, { ns: netns(t, 'node') })
    const post = async (path: string, body: object) => {
      const since = performance.now()
      const { status, text } = await agent.call('POST', `/api/v1${path}`, body)
      return { status, text, took: performance.now() - since }
    }
    t.match(await post('/dns/zones', { name: 'example.org' }), { status: 201 })
    const pid = () => Number(execFileSync('pgrep', ['-f', join(agent.runDir, 'responder.sock')], { encoding: 'utf8' }))
    const stopped = pid()
    process.kill(stopped, 'SIGSTOP')
    const [record, rule] = await Promise.all([
      post('/dns/records', { zone_id: 1, name: 'www', type: 'A', value: '192.0.2.80' }),
      post('/rules', { action: 'accept' }),
    ])
    t.match(record, { status: 201 })
    t.match(rule, { status: 201 })
    t.ok(record.took < 15_000 && rule.took < 15_000, `${Math.round(record.took)} and ${Math.round(rule.took)} ms`)
    t.not(pid(), stopped)
    t.ok(
      agent.logged.some(({ err }) => /ended: it did not answer .*SIGSTOP/.test(JSON.stringify(err) ?? '')),
      'the log tells who was ended, and why',
    )
  },
)
