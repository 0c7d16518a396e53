import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { lockState } from '../lock.ts'

t.test('a second agent on the same state waits for the first, then says who holds it', async (t) => {
  const dir = scratch(t)
  const first = await lockState(dir)
  await t.rejects(lockState(dir, 30), { message: new RegExp(`pid ${process.pid}\\)`) })
  const second = lockState(dir)
  first.release()
  ;(await second).release()
})

t.test('a process that inherited the lock holds it beyond the agent', async (t) => {
  const dir = scratch(t)
  const { fd, release } = await lockState(dir)
  const heir = spawn('sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', fd] })
  await once(heir, 'spawn')
  release()
  await t.rejects(lockState(dir, 30))
  heir.kill('SIGKILL')
  await once(heir, 'exit')
  ;(await lockState(dir)).release()
})
