/** What systemd hears of the agent, by a socket that stands for its own. */
import { join } from 'node:path'
import t from 'tap'
import { bind, close, receive, socket } from '../../dataplane/libc.ts'
import { scratch } from '../../test/build.ts'
import { serviceManager } from '../service-manager.ts'

const AF_UNIX = 1
const SOCK_DGRAM_NONBLOCK = 2 | 0o4000

function listening(t: Parameters<typeof scratch>[0], path: string): () => string[] {
  const fd = socket(AF_UNIX, SOCK_DGRAM_NONBLOCK, 0)
  t.teardown(() => close(fd))
  const name = path.startsWith('@') ? `\0${path.slice(1)}` : `${path}\0`
  bind(fd, Buffer.concat([Buffer.from([AF_UNIX, 0]), Buffer.from(name)]))
  return () => {
    const heard: string[] = []
    const buffer = Buffer.alloc(256)
    for (let length = receive(fd, buffer, 0); length > 0; length = receive(fd, buffer, 0)) {
      heard.push(buffer.toString('utf8', 0, length))
    }
    return heard
  }
}

t.test('it says ready once, that it lives, and that it stops', async (t) => {
  for (const path of [join(scratch(t), 'notify'), `@stratum-test-${process.pid}`]) {
    const heard = listening(t, path)
    const problems: unknown[] = []
    const manager = serviceManager({ NOTIFY_SOCKET: path, WATCHDOG_USEC: '60000' }, (error) => problems.push(error))
    t.same(heard(), [])
    manager.ready()
    t.equal(heard()[0], 'READY=1')
    const signal = AbortSignal.timeout(20_000)
    while (!heard().includes('WATCHDOG=1')) {
      signal.throwIfAborted()
      await new Promise((wait) => setTimeout(wait, 5))
    }
    manager.stopping()
    t.ok(heard().includes('STOPPING=1'))
    t.same(problems, [])
  }
})

t.test('without a service manager nothing is sent, and one that is gone is no reason to fail', async (t) => {
  const problems: unknown[] = []
  for (const NOTIFY_SOCKET of [undefined, '', 'relative'])
    serviceManager({ NOTIFY_SOCKET }, (error) => problems.push(error)).ready()
  t.same(problems, [])
  serviceManager({ NOTIFY_SOCKET: '/nonexistent/notify' }, (error) => problems.push(error)).ready()
  t.match(problems, [{ code: 'ENOENT' }])
})
