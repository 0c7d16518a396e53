/** A process whose libuv has an io_uring: it starts over without, and is the same to who started it. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../test/build.ts'
import { skipping } from '../../test/required.ts'

const here = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)
const ENOSYS = 38

/** Has an io_uring of its own at first, where Node has none. */
const script = `
  import koffi from ${JSON.stringify(import.meta.resolve('koffi'))}
  import { readdirSync, readlinkSync } from 'node:fs'
  import { withoutRings } from ${here('../rings.js')}
  const syscall = koffi.load(null).func('long syscall(long n, long a, void *b)')
  const ring = Number(syscall(425, 1, Buffer.alloc(256)))
  const errno = ring < 0 ? koffi.errno() : 0
  withoutRings()
  const link = (fd) => { try { return readlinkSync('/proc/self/fd/' + fd) } catch { return '' } }
  const rings = readdirSync('/proc/self/fd').filter((fd) => link(fd).includes('io_uring')).length
  process.send({ pid: process.pid, args: process.argv.slice(2), mark: process.env.MARK, again: process.env.STRATUM_RESPONDER_AGAIN, errno, rings }, () => process.disconnect())`

t.test(
  'the one that started over has none, cannot have any, and keeps its number, arguments and channel',
  async (t) => {
    const file = join(scratch(t), 'ring.mjs')
    writeFileSync(file, script)
    const child = fork(file, ['one', 'zwei drei', ''], {
      env: { MARK: 'é' },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const [told] = await once(child, 'message')
    const none = told.again === undefined && told.errno !== 0
    if (none) return void t.plan(0, skipping(`this kernel gives no io_uring (errno ${told.errno})`))
    t.same(told, { pid: child.pid, args: ['one', 'zwei drei', ''], mark: 'é', again: '1', errno: ENOSYS, rings: 0 })
    t.same(await once(child, 'exit'), [0, null])
  },
)
