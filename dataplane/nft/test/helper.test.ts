/** The process that speaks to nft, when its agent dies. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'

t.test('an agent that has gone before its answer is no error of the helper', async (t) => {
  const helper = fork(new URL('../helper.js', import.meta.url), { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  t.teardown(() => helper.kill('SIGKILL'))
  let said = ''
  helper.stderr?.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  await once(helper, 'message')
  for (let id = 1; id <= 20; id++) helper.send({ id, script: 'no such command' })
  helper.disconnect()
  helper.ref()
  const [code] = await once(helper, 'exit')
  t.equal(code, 0)
  t.equal(said, '')
})
