/**
 * The system calls that the responder may make once it serves, as a filter for seccomp(2). Whatever is not listed is refused:
 * EPERM for calls that were known when this was written, ENOSYS for newer ones and for clone3, so that libc takes an older way.
 * Nothing ends the process. Among what is refused: every file, every program, every signal to others, every outgoing connection.
 */

type Architecture = 'x64' | 'arm64'
/** Numbers of one call: on amd64, and on arm64 where it has the call. */
type Numbers = readonly [x64: number, arm64?: number]
/** An argument, of which the lower 32 bits below `mask` are one of these; or the upper ones. */
interface Check {
  arg: number
  upper?: true
  mask?: number
  oneOf: readonly number[]
}
interface Rule {
  call: Numbers
  /** Allowed when all checks of one of these hold. */
  when: readonly (readonly Check[])[]
}

/**
 * Allowed whatever the arguments are: name, number on amd64 and on arm64 (asm/unistd_64.h, asm-generic/unistd.h). Of files it may
 * still be asked what lies at a path (statx): whether another process listens on the path of the control socket by now.
 */
const ALWAYS = `
  read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, close 3 57, dup 32 23, shutdown 48 210,
  fsync 74 82, lseek 8 62, fstat 5 80, epoll_wait 232 -, epoll_pwait 281 22, epoll_ctl 233 21, poll 7 -,
  ppoll 271 73, eventfd2 290 19, bind 49 200, listen 50 201, accept 43 202, accept4 288 242, getsockname 51 204,
  getpeername 52 205, getsockopt 55 209, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243, mmap 9 222,
  munmap 11 215, mprotect 10 226, madvise 28 233, mremap 25 216, brk 12 214, pkey_mprotect 329 288, mincore 27 232,
  membarrier 324 283, futex 202 98, set_robust_list 273 99, rseq 334 293, sched_yield 24 124,
  sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120, exit 60 93, exit_group 231 94,
  restart_syscall 219 128, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
  sigaltstack 131 132, getpid 39 172, gettid 186 178, getppid 110 173, getuid 102 174, geteuid 107 175,
  getgid 104 176, getegid 108 177, nanosleep 35 101, clock_nanosleep 230 115, clock_gettime 228 113,
  clock_getres 229 114, gettimeofday 96 169, time 201 -, getrandom 318 278, getrusage 98 165, times 100 153,
  uname 63 160, sysinfo 99 179, getcpu 309 168, statx 332 291, newfstatat 262 79`

const always: Numbers[] = ALWAYS.trim()
  .split(/,\s*/)
  .map((call) => {
    const [, x64 = '', arm64 = ''] = call.split(' ')
    return arm64 === '-' ? [Number(x64)] : [Number(x64), Number(arm64)]
  })

/** linux/sched.h: CLONE_THREAD without any CLONE_NEW… */
const THREAD = { mask: 0x7e02_0000 | 0x0001_0000, value: 0x0001_0000 }
/** linux/prctl.h: PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_NO_NEW_PRIVS, PR_SET_VMA */
const PRCTLS = [3, 15, 16, 39, 0x5356_4d41]
/** F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC */
const FCNTLS = [0, 1, 2, 3, 4, 1030]
/** TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, SIOCGIFINDEX */
const IOCTLS = [0x5401, 0x541b, 0x5421, 0x5450, 0x5451, 0x8933]
/** linux/socket.h */
const MSG_FASTOPEN = 0x2000_0000
const [AF_UNIX, AF_INET, AF_INET6] = [1, 2, 10]
const [SOCK_STREAM, SOCK_DGRAM, SOCK_TYPE] = [1, 2, 0xf]
/** By level: SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6. No marks of packets, no addresses of others as their source. */
const OPTIONS: readonly (readonly [level: number, names: readonly number[]])[] = [
  // SO_REUSEADDR, SO_BROADCAST, SO_RCVBUF, SO_KEEPALIVE, SO_LINGER, SO_BINDTODEVICE, SO_RCVBUFFORCE, SO_RCVMARK
  [1, [2, 6, 8, 9, 13, 25, 33, 75]],
  // IP_PKTINFO, IP_FREEBIND
  [0, [8, 15]],
  // TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT
  [6, [1, 4, 5, 6]],
  // IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_FREEBIND
  [41, [26, 49, 78]],
]

/** `pid`: of the process that the filter is for, which may signal itself (abort). */
const checkedRules = (pid: number): Rule[] => [
  {
    call: [41, 198],
    when: [
      [
        { arg: 0, oneOf: [AF_INET, AF_INET6] },
        { arg: 1, mask: SOCK_TYPE, oneOf: [SOCK_STREAM, SOCK_DGRAM] },
        // TCP and UDP. By a number one would get others, of modules that the kernel loads for it: MPTCP, SCTP, UDP-Lite, L2TP.
        { arg: 2, oneOf: [0] },
      ],
      // libc asks for the index of a device over such a one.
      [
        { arg: 0, oneOf: [AF_UNIX] },
        { arg: 1, mask: SOCK_TYPE, oneOf: [SOCK_DGRAM] },
        { arg: 2, oneOf: [0] },
      ],
    ],
  },
  {
    call: [54, 208],
    when: OPTIONS.map(([level, names]) => [
      { arg: 1, oneOf: [level] },
      { arg: 2, oneOf: names },
    ]),
  },
  // A datagram or an answer, but no connection (MSG_FASTOPEN): sendto, sendmsg, sendmmsg.
  { call: [44, 206], when: [[{ arg: 3, mask: MSG_FASTOPEN, oneOf: [0] }]] },
  { call: [46, 211], when: [[{ arg: 2, mask: MSG_FASTOPEN, oneOf: [0] }]] },
  { call: [307, 269], when: [[{ arg: 3, mask: MSG_FASTOPEN, oneOf: [0] }]] },
  { call: [56, 220], when: [[{ arg: 0, mask: THREAD.mask, oneOf: [THREAD.value] }]] },
  { call: [157, 167], when: [[{ arg: 0, oneOf: PRCTLS }]] },
  { call: [72, 25], when: [[{ arg: 1, oneOf: FCNTLS }]] },
  { call: [16, 29], when: [[{ arg: 1, oneOf: IOCTLS }]] },
  { call: [234, 131], when: [[{ arg: 0, oneOf: [pid] }]] },
  // Limits are read; the third argument is what to set (a pointer, of which both halves are 0 then).
  {
    call: [302, 261],
    when: [
      [
        { arg: 0, oneOf: [0, pid] },
        { arg: 2, oneOf: [0] },
        { arg: 2, upper: true, oneOf: [0] },
      ],
    ],
  },
]

const CLONE3: Numbers = [435, 435]
/** futex_waitv and set_mempolicy_home_node: later ones are not judged by their number. */
const LAST_KNOWN = 450
/** linux/audit.h */
const ARCH = { x64: 0xc000_003e, arm64: 0xc000_00b7 }

/** linux/filter.h, linux/bpf_common.h, linux/seccomp.h */
const LOAD = 0x20
const AND = 0x54
const JUMP_EQUAL = 0x15
const JUMP_GREATER = 0x25
const RETURN = 0x06
const RET_ALLOW = 0x7fff_0000
const RET_ERRNO = 0x0005_0000
const [EPERM, ENOSYS] = [1, 38]
/** struct seccomp_data */
const AT = { number: 0, arch: 4, args: 16 }

type Instruction = readonly [code: number, k: number, ifTrue?: number, ifFalse?: number]

const allow: Instruction = [RETURN, RET_ALLOW]
const refuse = (errno: number): Instruction => [RETURN, RET_ERRNO | errno]

/** io_uring_setup, io_uring_enter, io_uring_register: the same on every architecture. */
const RINGS = [425, 426, 427] as const
/** Says that the kernel has no io_uring, and allows all else. It guards nothing: it has libuv take another way. */
export const RING_FILTER = encoded([
  [LOAD, AT.number],
  ...RINGS.map((number, n): Instruction => [JUMP_EQUAL, number, RINGS.length - 1 - n, n === RINGS.length - 1 ? 1 : 0]),
  refuse(ENOSYS),
  allow,
])

/** `struct sock_filter`s of 8 bytes each, for this architecture. */
export function systemCallFilter(architecture: Architecture, pid: number): Buffer {
  const at = architecture === 'x64' ? 0 : 1
  const only = (call: Numbers, then: readonly Instruction[]): Instruction[] => {
    const number = call[at]
    return number === undefined ? [] : [[JUMP_EQUAL, number, 0, then.length], ...then]
  }
  return encoded([
    [LOAD, AT.arch],
    [JUMP_EQUAL, ARCH[architecture], 1, 0],
    refuse(ENOSYS),
    [LOAD, AT.number],
    ...always.flatMap((call) => only(call, [allow])),
    ...checkedRules(pid).flatMap(({ call, when }) => only(call, [...when.flatMap(alternative), refuse(EPERM)])),
    ...only(CLONE3, [refuse(ENOSYS)]),
    // The 32-bit numbers of amd64 (x32) are among these.
    [JUMP_GREATER, LAST_KNOWN, 0, 1],
    refuse(ENOSYS),
    refuse(EPERM),
  ])
}

/** Allows when all hold, else goes on behind itself. */
function alternative(checks: readonly Check[]): Instruction[] {
  let rest: Instruction[] = [allow]
  for (const { arg, upper, mask, oneOf } of [...checks].reverse()) {
    const tests = oneOf.map((value, n): Instruction => {
      const left = oneOf.length - 1 - n
      return [JUMP_EQUAL, value, left, left === 0 ? rest.length : 0]
    })
    const load: Instruction[] = [
      [LOAD, AT.args + 8 * arg + (upper ? 4 : 0)],
      ...(mask === undefined ? [] : [[AND, mask] as const]),
    ]
    rest = [...load, ...tests, ...rest]
  }
  return rest
}

function encoded(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(8 * program.length)
  for (const [n, [code, k, ifTrue = 0, ifFalse = 0]] of program.entries()) {
    bytes.writeUInt16LE(code, 8 * n)
    bytes.writeUInt8(ifTrue, 8 * n + 2)
    bytes.writeUInt8(ifFalse, 8 * n + 3)
    bytes.writeUInt32LE(k >>> 0, 8 * n + 4)
  }
  return bytes
}
