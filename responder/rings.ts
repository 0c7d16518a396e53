/**
 * No io_uring: what is asked of one, no filter of system calls sees. libuv has one in each loop from version 1.49 on (Node 22, Node 24,
 * Debian 13's Node 20), whatever UV_USE_IO_URING says, and ends the process where a filter refuses it. So a process
 * that finds one starts over as the same program, to which the kernel says from the beginning that it knows no io_uring.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import koffi from 'koffi'
import { KernelError } from '../dataplane/libc.ts'
import { refuseRings } from './privileges.ts'

/** In the environment of the one that started over. */
const AGAIN = 'STRATUM_RESPONDER_AGAIN'
/** The channel to the agent: Node keeps its number for itself. */
const IPC = /^NODE_CHANNEL_FD=(\d+)$/
const F_SETFD = 2

/** Returns where this process has no io_uring; otherwise it becomes one that has none. @throws Error where it cannot */
export function withoutRings(): void {
  if (!hasRing()) return
  if (process.env[AGAIN] !== undefined) throw new Error('Node uses an io_uring though the kernel refuses it')
  const library = koffi.load(null)
  const execve = library.func('int execve(const char *path, const void *argv, const void *envp)')
  const fcntl = library.func('int fcntl(int fd, int command, int argument)')
  // As they were at the start: Node has taken the number of the channel out of its own.
  const environment = listOf('/proc/self/environ')
  const channel = environment.map((one) => IPC.exec(one)?.[1]).find((number) => number !== undefined)
  if (channel !== undefined) fcntl(Number(channel), F_SETFD, 0)
  const [argv, envp] = [strings(listOf('/proc/self/cmdline')), strings([...environment, `${AGAIN}=1`])]
  refuseRings()
  execve(process.execPath, argv, envp)
  throw new Error(`${process.execPath} cannot be started over: ${new KernelError(koffi.errno()).message}`)
}

function hasRing(): boolean {
  return readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === 'anon_inode:[io_uring]'
    } catch {
      // That of the directory itself is closed by now.
      return false
    }
  })
}

const listOf = (file: string): string[] => readFileSync(file, 'utf8').split('\0').slice(0, -1)

/** char *[] that ends in a null pointer, and what it points to, in one piece. */
function strings(list: readonly string[]): Buffer {
  const texts = list.map((one) => Buffer.from(`${one}\0`))
  const head = Buffer.alloc(8 * (list.length + 1))
  const whole = Buffer.concat([head, ...texts])
  let at = head.length
  for (const [n, text] of texts.entries()) {
    whole.writeBigUInt64LE(koffi.address(whole) + BigInt(at), 8 * n)
    at += text.length
  }
  return whole
}
