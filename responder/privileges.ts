/**
 * Gives up what this process does not need: it parses what strangers send. It goes on under an account of its own, with two
 * capabilities on one thread, in a directory that is gone, and with few system calls (seccomp.ts).
 *
 * What stays is CAP_NET_BIND_SERVICE, because addresses and devices that DNS and DHCP are served on come and go, and CAP_NET_RAW,
 * without which a socket is not told the marks of frames (SO_RCVMARK). The filter takes what else the latter is good for.
 *
 * The calls are libc's and not Node's: Node refuses setuid(2) where its libuv may use io_uring. Those that change ids are
 * carried out by libc on all threads, and so is the filter by the kernel, which sets no_new_privs with it. Whether they did so
 * is read from the kernel, thread by thread (threads.ts).
 */
import { mkdtempSync, readFileSync, rmdirSync } from 'node:fs'
import koffi, { type KoffiFunc } from 'koffi'
import { KernelError } from '../dataplane/libc.ts'
import { responderAccount } from './account.ts'
import { RING_FILTER, systemCallFilter } from './seccomp.ts'
import { openThreads } from './threads.ts'

/** linux/capability.h */
const CAPABILITY_VERSION_3 = 0x20080522
const CAP_NET_BIND_SERVICE = 10
const CAP_NET_RAW = 13
/** What the first thread keeps. */
const KEPT = (1 << CAP_NET_BIND_SERVICE) | (1 << CAP_NET_RAW)
/** linux/prctl.h */
const PR_SET_DUMPABLE = 4
const PR_SET_KEEPCAPS = 8
const PR_SET_NO_NEW_PRIVS = 38
/** linux/seccomp.h */
const SECCOMP_SET_MODE_FILTER = 1
const SECCOMP_FILTER_FLAG_TSYNC = 1

/** For good, on all threads. `folder`: where a directory can be made. @throws Error for what the kernel refuses */
export function dropPrivileges(folder: string): void {
  const calls = bindCalls()
  enterNowhere(folder)
  sure('no_new_privs', calls.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
  const asRoot = process.getuid?.() === 0
  if (asRoot) becomeAccount(calls)
  // The keys of signed zones are in memory.
  sure('PR_SET_DUMPABLE', calls.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
  const threads = openThreads()
  confine(calls)
  threads.sure(asRoot ? KEPT : undefined)
}

/** Refuses io_urings to this thread, and to the program that it becomes next. */
export function refuseRings(): void {
  const calls = bindCalls()
  sure('no_new_privs', calls.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
  install(calls, RING_FILTER, 0)
}

/** The filter alone, for tests. */
export function confine(calls: Calls = bindCalls()): void {
  sure('no_new_privs', calls.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
  const { arch } = process
  if (arch !== 'x64' && arch !== 'arm64') throw new Error(`no filter of system calls is made for ${arch}`)
  install(calls, systemCallFilter(arch, process.pid), SECCOMP_FILTER_FLAG_TSYNC)
}

function install(calls: Calls, filter: Buffer, flags: number): void {
  // struct sock_fprog
  const program = Buffer.alloc(16)
  program.writeUInt16LE(filter.length / 8)
  program.writeBigUInt64LE(koffi.address(filter), 8)
  const number = process.arch === 'x64' ? 317 : 277
  const result = calls.syscall(number, SECCOMP_SET_MODE_FILTER, flags, program)
  if (result > 0) throw new Error(`seccomp: thread ${result} cannot be confined`)
  sure('seccomp', Number(result))
}

interface Calls {
  prctl: KoffiFunc<(option: number, a: number, b: number, c: number, d: number) => number>
  capset: KoffiFunc<(header: Uint8Array, data: Uint8Array) => number>
  setgroups: KoffiFunc<(count: number, list: null) => number>
  setresgid: KoffiFunc<(real: number, effective: number, saved: number) => number>
  setresuid: KoffiFunc<(real: number, effective: number, saved: number) => number>
  syscall: KoffiFunc<(number: number, operation: number, flags: number, argument: Uint8Array) => number>
}

function bindCalls(): Calls {
  const library = koffi.load(null)
  return {
    prctl: library.func('int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)'),
    capset: library.func('int capset(const void *header, const void *data)'),
    setgroups: library.func('int setgroups(size_t count, const void *list)'),
    setresgid: library.func('int setresgid(uint32_t real, uint32_t effective, uint32_t saved)'),
    setresuid: library.func('int setresuid(uint32_t real, uint32_t effective, uint32_t saved)'),
    syscall: library.func('long syscall(long number, long operation, long flags, const void *argument)'),
  }
}

function becomeAccount(calls: Calls): void {
  const { uid, gid } = responderAccount(readFileSync('/etc/passwd', 'utf8'), readFileSync('/etc/group', 'utf8'))
  // Of this thread alone: the others lose all capabilities with uid 0.
  sure('PR_SET_KEEPCAPS', calls.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
  sure('setgroups', calls.setgroups(0, null))
  sure('setresgid', calls.setresgid(gid, gid, gid))
  sure('setresuid', calls.setresuid(uid, uid, uid))
  sure('PR_SET_KEEPCAPS', calls.prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0))
  const header = Buffer.alloc(8)
  header.writeUInt32LE(CAPABILITY_VERSION_3, 0)
  // struct __user_cap_data_struct twice: effective, permitted, inheritable of the lower and the upper 32.
  const data = Buffer.alloc(24)
  data.writeUInt32LE(KEPT, 0)
  data.writeUInt32LE(KEPT, 4)
  sure('capset', calls.capset(header, data))
}

/** Into a directory that is gone: it is empty, and nothing can be made in it. */
function enterNowhere(folder: string): void {
  const nowhere = mkdtempSync(`${folder}/nowhere-`)
  try {
    process.chdir(nowhere)
  } finally {
    rmdirSync(nowhere)
  }
}

function sure(what: string, result: number): void {
  if (result !== 0) throw new Error(`${what} was refused: ${new KernelError(koffi.errno()).message}`)
}
