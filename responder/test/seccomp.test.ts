/** The filter on a process of its own: what is refused, what goes on, on which threads. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { systemCallFilter } from '../seccomp.ts'

const run = promisify(execFile)
const here = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)

/** Runs the body in a confined process, with `call(...)` for a system call that takes numbers: 0 or the negative errno. */
async function confined(body: string): Promise<unknown> {
  const script = `
    import koffi from 'koffi'
    import { readdirSync } from 'node:fs'
    import * as net from 'node:net'
    import * as crypto from 'node:crypto'
    import { confine } from ${here('../privileges.js')}
    import { withoutRings } from ${here('../rings.js')}
    import { bindSocket } from ${here('../socket.js')}
    import { close, deviceIndex, setOption } from ${here('../../dataplane/libc.js')}
    // Node keeps its standard output from what it becomes when it starts over.
    koffi.load(null).func('int fcntl(int fd, int command, int argument)')(1, 2, 0)
    withoutRings()
    const syscall = koffi.load(null).func('long syscall(long n, long a, long b, long c, long d, long e)')
    const call = (n, ...args) => {
      const result = Number(syscall(n, ...args, ...Array(5 - args.length).fill(0)))
      return result < 0 ? -koffi.errno() : result
    }
    const attempt = (work) => { try { work(); return 'done' } catch (error) { return error.code ?? String(error) } }
    const told = await (async () => { ${body} })()
    process.stdout.write(JSON.stringify(told))`
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { timeout: 60_000 })
  return JSON.parse(stdout)
}

const [EPERM, ENOSYS] = [-1, -38]
/** By number on this architecture: execve, execveat and what else a process in bad hands would want. */
const DANGEROUS = {
  x64: {
    ...{ open: 2, openat: 257, openat2: 437, creat: 85, unlink: 87, rename: 82, mkdir: 83, chmod: 90, truncate: 76 },
    ...{
      execve: 59,
      execveat: 322,
      fork: 57,
      vfork: 58,
      unshare: 272,
      setns: 308,
      chroot: 161,
      mount: 165,
      pivot_root: 155,
    },
    ...{ ptrace: 101, process_vm_readv: 310, process_vm_writev: 311, bpf: 321, perf_event_open: 298, keyctl: 250 },
    ...{
      add_key: 248,
      request_key: 249,
      kill: 62,
      tkill: 200,
      pidfd_send_signal: 424,
      pidfd_open: 434,
      rt_sigqueueinfo: 129,
    },
    ...{ init_module: 175, finit_module: 313, kexec_load: 246, reboot: 169, setuid: 105, setresuid: 117, capset: 126 },
    ...{
      io_uring_setup: 425,
      userfaultfd: 323,
      memfd_create: 319,
      connect: 42,
      settimeofday: 164,
      seccomp: 317,
      umount2: 166,
    },
    ...{ io_uring_enter: 426, io_uring_register: 427, pidfd_getfd: 438, process_madvise: 440, memfd_secret: 447 },
    ...{ open_by_handle_at: 304, name_to_handle_at: 303, open_tree: 428, move_mount: 429, fsopen: 430, fsmount: 432 },
    ...{ getdents64: 217, readlink: 89, readlinkat: 267, chdir: 80, fchdir: 81, mknod: 133, symlink: 88, link: 86 },
    ...{ socketpair: 53, pipe2: 293, splice: 275, sendfile: 40, shmget: 29, msgget: 68, fanotify_init: 300 },
    ...{ personality: 135, modify_ldt: 154, iopl: 172, ioperm: 173, setrlimit: 160, sched_setaffinity: 203 },
    ...{ sethostname: 170, swapon: 167, acct: 163, epoll_create1: 291, timer_create: 222, setpriority: 141 },
  },
  arm64: {
    ...{
      openat: 56,
      openat2: 437,
      unlinkat: 35,
      execve: 221,
      execveat: 281,
      unshare: 97,
      setns: 268,
      chroot: 51,
      mount: 40,
    },
    ...{
      ptrace: 117,
      process_vm_readv: 270,
      process_vm_writev: 271,
      bpf: 280,
      perf_event_open: 241,
      keyctl: 219,
      kill: 129,
    },
    ...{ tkill: 130, pidfd_send_signal: 424, pidfd_open: 434, init_module: 105, finit_module: 273, kexec_load: 104 },
    ...{
      setuid: 146,
      setresuid: 147,
      capset: 91,
      io_uring_setup: 425,
      userfaultfd: 282,
      memfd_create: 279,
      connect: 203,
    },
    ...{ io_uring_enter: 426, io_uring_register: 427, pidfd_getfd: 438, process_madvise: 440, memfd_secret: 447 },
    ...{ open_by_handle_at: 265, open_tree: 428, move_mount: 429, fsopen: 430, fsmount: 432, getdents64: 61 },
    ...{ readlinkat: 78, chdir: 49, mknodat: 33, symlinkat: 36, linkat: 37, socketpair: 199, pipe2: 59, splice: 76 },
    ...{ fanotify_init: 262, personality: 92, setrlimit: 164, epoll_create1: 20, setpriority: 140 },
  },
}[process.arch as 'x64' | 'arm64'] as Record<string, number>
const numbers =
  process.arch === 'x64'
    ? { clone: 56, socket: 41, setsockopt: 54, prctl: 157, sendto: 44, tgkill: 234 }
    : { clone: 220, socket: 198, setsockopt: 208, prctl: 167, sendto: 206, tgkill: 131 }

t.test('each call that could do harm is refused, and none ends the process', async (t) => {
  const answers = (await confined(`
    confine()
    return Object.entries(${JSON.stringify(DANGEROUS)}).map(([name, number]) => [name, call(number, -1, -1, -1)])
  `)) as [string, number][]
  t.same(
    answers.filter(([, answer]) => answer !== EPERM),
    [],
  )
  t.equal(answers.length, Object.keys(DANGEROUS).length)
})

t.test('calls that a later libc may try are said not to exist, so that it takes an older way', async (t) => {
  t.same(await confined('confine(); return [435, 451, 462, 1000, 0x40000000].map((number) => call(number))'), [
    ...[ENOSYS, ENOSYS, ENOSYS, ENOSYS, ENOSYS],
  ])
})

t.test('of calls that it needs only those are allowed that it makes', async (t) => {
  const { clone, socket, setsockopt, prctl, sendto, tgkill } = numbers
  const answers = await confined(`
    const fd = bindSocket(1, '127.0.0.1', 0)
    confine()
    return {
      fork: call(${clone}, 17), namespace: call(${clone}, 0x10000 | 0x40000000),
      raw: call(${socket}, 2, 3, 1), packet: call(${socket}, 17, 2, 0), netlink: call(${socket}, 16, 3, 0), unix: call(${socket}, 1, 1, 0),
      ping: call(${socket}, 2, 2, 1), mptcp: call(${socket}, 2, 1, 262), sctp: call(${socket}, 10, 1, 132),
      lite: call(${socket}, 2, 2, 136), l2tp: call(${socket}, 2, 2, 115), vsock: call(${socket}, 40, 1, 0), alg: call(${socket}, 38, 5, 0), xdp: call(${socket}, 44, 3, 0),
      mark: call(${setsockopt}, fd, 1, 36, 0, 0), transparent: call(${setsockopt}, fd, 0, 19, 0, 0), filter: call(${setsockopt}, fd, 1, 26, 0, 0),
      dumpable: call(${prctl}, 4, 1), keepcaps: call(${prctl}, 8, 1), ambient: call(${prctl}, 47, 2, 10),
      fastOpen: call(${sendto}, fd, 0, 0, 0x20000000, 0),
      signal: call(${tgkill}, process.ppid, process.ppid, 0), itself: call(${tgkill}, process.pid, process.pid, 0),
    }`)
  const { itself, ...others } = answers as Record<string, number>
  t.same(
    Object.entries(others).filter(([, answer]) => answer !== EPERM),
    [],
  )
  t.equal(itself, 0)
})

t.test('it is on all threads, and Node goes on: sockets, signatures, memory, devices', async (t) => {
  const answers = await confined(`
    const tasks = readdirSync('/proc/self/task').length
    confine()
    const server = net.createServer((socket) => socket.end('hello')).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const fd = bindSocket(2, '::1', 0)
    setOption(fd, 1, 75, 1)
    close(fd)
    const ofPool = await import('node:fs').then((fs) => fs.promises.readFile('/etc/passwd').catch(({ code }) => code))
    for (let n = 0, kept = []; n < 200; n++) kept = [Buffer.alloc(1 << 20), ...kept.slice(0, 10)]
    server.close()
    return {
      tasks: tasks > 1, ofPool, lo: deviceIndex('lo'),
      signed: crypto.sign('sha256', Buffer.from('x'), privateKey).length > 60,
      file: attempt(() => readdirSync('/')), program: attempt(() => process.kill(process.ppid, 0)),
      connection: await new Promise((resolve) => net.connect(server.address()?.port ?? 9, '127.0.0.1').on('error', ({ code }) => resolve(code))),
    }`)
  t.same(answers, {
    ...{ tasks: true, ofPool: 'EPERM', lo: 1, signed: true },
    ...{ file: 'EPERM', program: 'EPERM', connection: 'EPERM' },
  })
})

t.test('the filter of each architecture is a program that the kernel can read, in which no jump leads out', (t) => {
  for (const [architecture, word] of [
    ['x64', 0xc000_003e],
    ['arm64', 0xc000_00b7],
  ] as const) {
    const filter = systemCallFilter(architecture, 7)
    const count = filter.length / 8
    t.ok(Number.isInteger(count) && count < 4096)
    t.equal(filter.readUInt32LE(8 + 4), word)
    for (let n = 0; n < count; n++) {
      if ((filter.readUInt16LE(8 * n) & 7) !== 5) continue
      const furthest = n + 1 + Math.max(filter.readUInt8(8 * n + 2), filter.readUInt8(8 * n + 3))
      if (furthest >= count) t.fail(`instruction ${n} jumps behind the end`)
    }
  }
  t.end()
})
