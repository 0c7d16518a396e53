/** Whether this kernel has TCP-MD5 (RFC 2385), which is a choice when it is built (CONFIG_TCP_MD5SIG). */
import { close, KernelError, setOptionBytes, socket } from '../libc.ts'

/** sys/socket.h, netinet/in.h, netinet/tcp.h */
const AF_INET = 2
const SOCK_STREAM = 1
const SOCK_CLOEXEC = 0o2000000
const IPPROTO_TCP = 6
const TCP_MD5SIG = 14
/** struct tcp_md5sig: the address as a sockaddr_storage, the length of the key, and the key. */
const SIZE = 216
const [LENGTH_AT, KEY_AT] = [130, 136]

/** A key is set on a socket that is thrown away. */
export function takesKeys(): boolean {
  const fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)
  const option = Buffer.alloc(SIZE)
  option.writeUInt16LE(AF_INET, 0)
  // 127.0.0.1 and one letter.
  Buffer.from([127, 0, 0, 1]).copy(option, 4)
  option.writeUInt16LE(1, LENGTH_AT)
  option.write('x', KEY_AT)
  try {
    setOptionBytes(fd, IPPROTO_TCP, TCP_MD5SIG, option)
    return true
  } catch (error) {
    if (error instanceof KernelError) return false
    throw error
  } finally {
    close(fd)
  }
}
