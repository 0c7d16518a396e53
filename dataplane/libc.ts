/**
 * The one module that binds libc. Its calls are typed and check their result here, because koffi itself takes any
 * argument and a wrong one is a segmentation fault. Linux only; byte order is that of the host.
 */
import { closeSync, openSync } from 'node:fs'
import koffi, { type KoffiFunc } from 'koffi'
import { errnoName } from './errno.ts'

/** The program itself, which has libc loaded already under whatever name this system gives it. */
const library = koffi.load(null)

/** sys/uio.h, sys/socket.h */
koffi.struct('iovec', { iov_base: 'void *', iov_len: 'size_t' })
koffi.struct('msghdr', {
  msg_name: 'void *',
  msg_namelen: 'uint32_t',
  msg_iov: 'iovec *',
  msg_iovlen: 'size_t',
  msg_control: 'void *',
  msg_controllen: 'size_t',
  msg_flags: 'int',
})
interface Msghdr {
  msg_name: Uint8Array
  msg_namelen: number
  msg_iov: { iov_base: Uint8Array; iov_len: number }
  msg_iovlen: number
  msg_control: Uint8Array
  msg_controllen: number
  msg_flags: number
}
type Message = KoffiFunc<(fd: number, message: Msghdr, flags: number) => number | bigint>

type Transfer = KoffiFunc<(fd: number, bytes: Uint8Array, length: number, flags: number) => number | bigint>

const calls: {
  socket: KoffiFunc<(domain: number, type: number, protocol: number) => number>
  bind: KoffiFunc<(fd: number, address: Uint8Array, length: number) => number>
  connect: KoffiFunc<(fd: number, address: Uint8Array, length: number) => number>
  setsockopt: KoffiFunc<(fd: number, level: number, name: number, value: Uint8Array, length: number) => number>
  send: Transfer
  sendto: KoffiFunc<
    (fd: number, bytes: Uint8Array, length: number, flags: number, to: Uint8Array, size: number) => number | bigint
  >
  recv: Transfer
  recvmsg: Message
  sendmsg: Message
  if_nametoindex: KoffiFunc<(name: string) => number>
  recvmmsg: KoffiFunc<(fd: number, headers: number, count: number, flags: number, timeout: number) => number>
  sendmmsg: KoffiFunc<(fd: number, headers: number, count: number, flags: number) => number>
  close: KoffiFunc<(fd: number) => number>
  getsockname: KoffiFunc<(fd: number, address: Uint8Array, length: [number]) => number>
  ioctl: KoffiFunc<(fd: number, request: number) => number>
  setns: KoffiFunc<(fd: number, kind: number) => number>
  strerror: KoffiFunc<(errno: number) => string>
} = {
  socket: library.func('int socket(int domain, int type, int protocol)'),
  bind: library.func('int bind(int fd, const void *address, uint32_t length)'),
  connect: library.func('int connect(int fd, const void *address, uint32_t length)'),
  setsockopt: library.func('int setsockopt(int fd, int level, int name, const void *value, uint32_t length)'),
  // koffi knows no ssize_t; on Linux it is a long.
  send: library.func('long send(int fd, const void *bytes, size_t length, int flags)'),
  sendto: library.func(
    'long sendto(int fd, const void *bytes, size_t length, int flags, const void *to, uint32_t size)',
  ),
  recv: library.func('long recv(int fd, void *bytes, size_t length, int flags)'),
  // Pointers as numbers, which koffi passes faster: these two are called for every few datagrams.
  recvmmsg: library.func('int recvmmsg(int fd, size_t headers, uint32_t count, int flags, size_t timeout)'),
  sendmmsg: library.func('int sendmmsg(int fd, size_t headers, uint32_t count, int flags)'),
  recvmsg: library.func('long recvmsg(int fd, _Inout_ msghdr *message, int flags)'),
  sendmsg: library.func('long sendmsg(int fd, const msghdr *message, int flags)'),
  if_nametoindex: library.func('uint32_t if_nametoindex(const char *name)'),
  close: library.func('int close(int fd)'),
  getsockname: library.func('int getsockname(int fd, void *address, _Inout_ uint32_t *length)'),
  // For requests that take no argument.
  ioctl: library.func('int ioctl(int fd, unsigned long request)'),
  setns: library.func('int setns(int fd, int kind)'),
  strerror: library.func('const char *strerror(int errno)'),
}

/** linux/sched.h */
const CLONE_NEWNET = 0x40000000

/** asm-generic/socket.h, linux/socket.h */
const MSG_DONTWAIT = 0x40
const MSG_CMSG_CLOEXEC = 0x40000000
/** struct sockaddr_storage of linux/socket.h */
const SOCKADDR_BYTES = 128
/** asm-generic/ioctls.h */
const FIOCLEX = 0x5451

/**
 * The kernel refused. The message is the errno's name and the kernel's own explanation when it gave one
 * (`EINVAL: mtu less than device minimum`), else libc's text for the number (`ESRCH: No such process`).
 */
export class KernelError extends Error {
  override readonly name = 'KernelError'
  /** Name of the errno, such as `EEXIST`. */
  readonly code: string
  /** Positive number of asm-generic/errno.h. */
  readonly errno: number
  /** libc's text for the number: `No such device`. */
  readonly meaning: string
  /** The kernel's own words: netlink extended acknowledgement, verifier log and the like. */
  readonly extack: string | undefined

  constructor(errno: number, extack?: string) {
    const code = errnoName(errno)
    const meaning = calls.strerror(errno)
    super(`${code}: ${extack ?? meaning}`)
    this.code = code
    this.meaning = meaning
    this.errno = errno
    this.extack = extack
  }
}

/** socket(2). Throws {@link KernelError}. */
export function socket(domain: number, type: number, protocol: number): number {
  return checked(calls.socket(domain, type, protocol))
}

/** bind(2); `address` is an encoded sockaddr. Throws {@link KernelError}. */
export function bind(fd: number, address: Uint8Array): void {
  checked(calls.bind(fd, address, address.length))
}

/** connect(2) of a socket that does not wait (SOCK_NONBLOCK); `address` is an encoded sockaddr. Throws {@link KernelError}. */
export function connect(fd: number, address: Uint8Array): void {
  checked(calls.connect(fd, address, address.length))
}

/** setsockopt(2) for options that are one int. Throws {@link KernelError}. */
export function setOption(fd: number, level: number, name: number, value: number): void {
  const int = Buffer.alloc(4)
  int.writeInt32LE(value)
  checked(calls.setsockopt(fd, level, name, int, int.length))
}

/** setsockopt(2) for options that are bytes, such as SO_BINDTODEVICE. Throws {@link KernelError}. */
export function setOptionBytes(fd: number, level: number, name: number, value: Uint8Array): void {
  checked(calls.setsockopt(fd, level, name, value, value.length))
}

/** Number of a device in the namespace of the calling thread; 0 when there is none of that name. */
export const deviceIndex = (name: string): number => calls.if_nametoindex(name)

/** send(2) of one datagram for which the kernel waits for no lock. Throws {@link KernelError}. */
export function sendNow(fd: number, bytes: Uint8Array): void {
  if (Number(calls.send(fd, bytes, bytes.length, 0)) < 0) throw new KernelError(koffi.errno())
}

/** sendto(2) without waiting; `to` is an encoded sockaddr. Throws {@link KernelError}. */
export function sendTo(fd: number, bytes: Uint8Array, to: Uint8Array): void {
  if (Number(calls.sendto(fd, bytes, bytes.length, MSG_DONTWAIT, to, to.length)) < 0)
    throw new KernelError(koffi.errno())
}

/**
 * send(2) of one datagram on a pool thread, so that a kernel lock it waits for does not stop the event loop.
 * Rejects with {@link KernelError}; then nothing was sent.
 */
export function sendAsync(fd: number, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    calls.send.async(fd, bytes, bytes.length, 0, (failure, result) => {
      if (failure) return reject(failure)
      if (Number(result) >= 0) return resolve()
      // errno stayed on the pool thread. A failed datagram had no effect, so asking again here tells why.
      if (Number(calls.send(fd, bytes, bytes.length, 0)) >= 0) return resolve()
      reject(new KernelError(koffi.errno()))
    })
  })
}

/** recv(2). Returns the number of bytes, or the negative errno as the kernel's own calls do; never throws. */
export function receive(fd: number, into: Uint8Array, flags: number): number {
  const result = Number(calls.recv(fd, into, into.length, flags))
  return result < 0 ? -koffi.errno() : result
}

/**
 * recv(2) on a pool thread: even with MSG_DONTWAIT it may wait for a kernel lock while a dump goes on.
 * Resolves as {@link receive} returns, but an error that the socket reports only once shows as -EAGAIN.
 */
export function receiveAsync(fd: number, into: Uint8Array, flags: number): Promise<number> {
  return new Promise((resolve, reject) => {
    calls.recv.async(fd, into, into.length, flags, (failure, result) => {
      if (failure) return reject(failure)
      resolve(Number(result) < 0 ? receive(fd, into, flags | MSG_DONTWAIT) : Number(result))
    })
  })
}

/**
 * Where the bytes lie in memory, to be put into a structure for the kernel. They must have memory of their own outside
 * of the heap (Buffer.alloc of some hundred bytes or more) and be referred to for as long as the kernel may use them.
 */
export function addressOf(bytes: Uint8Array): number {
  return Number(koffi.address(bytes))
}

/**
 * recvmmsg(2) without waiting; `headers` is the {@link addressOf} of an array of struct mmsghdr. Returns how many
 * datagrams came, or the negative errno; never throws.
 */
export function receiveMany(fd: number, headers: number, count: number): number {
  const result = calls.recvmmsg(fd, headers, count, MSG_DONTWAIT, 0)
  return result < 0 ? -koffi.errno() : result
}

/** sendmmsg(2) without waiting, as {@link receiveMany}: how many datagrams went, or the negative errno of the first. */
export function sendMany(fd: number, headers: number, count: number): number {
  const result = calls.sendmmsg(fd, headers, count, MSG_DONTWAIT)
  return result < 0 ? -koffi.errno() : result
}

/** One datagram and what the kernel says of it (cmsg(3)): what is filled in reaches as far as the lengths say. */
export interface Datagram {
  bytes: Uint8Array
  /** An encoded sockaddr: from where it came, or to where it goes. */
  peer: Uint8Array
  control: Uint8Array
}

/**
 * recvmsg(2) without waiting. Returns the lengths of bytes, or the negative errno; never throws. What does not fit is cut
 * off, so that a length which fills its room may stand for more. A descriptor that comes along (SCM_RIGHTS of unix(7)) is the
 * caller's to close; no child of this process gets it.
 */
export function receiveMessage(fd: number, into: Datagram): { length: number; control: number } | number {
  const message = header(into)
  const result = Number(calls.recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC))
  return result < 0 ? -koffi.errno() : { length: result, control: message.msg_controllen }
}

/** sendmsg(2) without waiting. Throws {@link KernelError}. */
export function sendMessage(fd: number, datagram: Datagram): void {
  if (Number(calls.sendmsg(fd, header(datagram), MSG_DONTWAIT)) < 0) throw new KernelError(koffi.errno())
}

const header = ({ bytes, peer, control }: Datagram): Msghdr => ({
  msg_name: peer,
  msg_namelen: peer.length,
  msg_iov: { iov_base: bytes, iov_len: bytes.length },
  msg_iovlen: 1,
  msg_control: control,
  msg_controllen: control.length,
  msg_flags: 0,
})

/** getsockname(2): the encoded sockaddr that a socket is bound to. Throws {@link KernelError}. */
export function boundTo(fd: number): Buffer {
  const address = Buffer.alloc(SOCKADDR_BYTES)
  const length: [number] = [address.length]
  checked(calls.getsockname(fd, address, length))
  return address.subarray(0, Math.min(length[0], address.length))
}

/** No child of this process gets `fd`. Throws {@link KernelError}. */
export function closeOnExec(fd: number): void {
  checked(calls.ioctl(fd, FIOCLEX))
}

/** close(2). Throws {@link KernelError}. */
export function close(fd: number): void {
  checked(calls.close(fd))
}

/**
 * Runs `body` with this thread inside the network namespace behind `path`, and comes back. What `body` opens stays
 * in that namespace for good and may be used asynchronously afterwards. `body` must be synchronous and must start
 * nothing that runs on the thread pool: pool threads never leave their own namespace.
 * Throws {@link KernelError} (EPERM without CAP_SYS_ADMIN) or the error of opening `path`.
 */
export function inNamespace<T>(path: string, body: () => T): T {
  const home = openSync('/proc/thread-self/ns/net', 'r')
  try {
    const target = openSync(path, 'r')
    try {
      checked(calls.setns(target, CLONE_NEWNET))
    } finally {
      closeSync(target)
    }
    try {
      return body()
    } finally {
      checked(calls.setns(home, CLONE_NEWNET))
    }
  } finally {
    closeSync(home)
  }
}

/** errno must be read before anything else can call into libc. */
function checked(result: number): number {
  if (result < 0) throw new KernelError(koffi.errno())
  return result
}
