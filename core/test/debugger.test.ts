/** SIGUSR1, upon which Node opens a debugger that asks for no credential. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { startAgent } from '../../test/agent.ts'
import { netns, requireRoot } from '../../test/netns.ts'

t.test('SIGUSR1 opens no debugger, neither in the agent nor in the process that speaks to nft', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t)
  const { child, call, logged } = await startAgent(t, { ns })
  let said = ''
  child.stderr?.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  const { pid = 0 } = child
  const started = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
  const helper = started.find((one) => readFileSync(`/proc/${one}/cmdline`, 'utf8').includes('helper'))
  if (helper === undefined) throw new Error('no process speaks to nft')
  for (const one of [pid, helper]) {
    process.kill(one, 'SIGUSR1')
    const { status, text } = await call('POST', '/api/v1/rules', { action: 'drop', source_ip: '192.0.2.1' })
    t.equal(status, 201, text)
  }
  t.match(
    logged.find(({ signal }) => signal === 'SIGUSR1'),
    { level: 'warn' },
  )
  t.notMatch(said, /Debugger/)
  t.notMatch(ns.run('ss', '-Hltn'), /:9229\b/)
})
