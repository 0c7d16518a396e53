/**
 * Gives up what this process does not need of root: it parses what strangers send. What stays is to bind low ports and to
 * bind sockets to devices (capabilities(7)).
 */
import koffi from 'koffi'

/** linux/capability.h */
const CAPABILITY_VERSION_3 = 0x20080522
const CAP_NET_BIND_SERVICE = 10
const CAP_NET_RAW = 13
/** linux/prctl.h */
const PR_SET_DUMPABLE = 4
const PR_SET_KEEPCAPS = 8
const PR_SET_NO_NEW_PRIVS = 38
/** Debian's `nobody` and `nogroup`; numbers, because the names may lie in a directory service. */
const NOBODY = 65534

/** Stays as it is unless it runs as root. @throws Error when the kernel refuses */
export function dropPrivileges(): void {
  if (process.getuid?.() !== 0) return
  const library = koffi.load(null)
  const prctl = library.func(
    'int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)',
  )
  const capset = library.func('int capset(const void *header, const void *data)')
  const sure = (what: string, result: number) => {
    if (result !== 0) throw new Error(`${what} was refused`)
  }
  sure('PR_SET_KEEPCAPS', prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
  process.setgroups?.([])
  process.setgid?.(NOBODY)
  process.setuid?.(NOBODY)
  const header = Buffer.alloc(8)
  header.writeUInt32LE(CAPABILITY_VERSION_3, 0)
  const kept = (1 << CAP_NET_BIND_SERVICE) | (1 << CAP_NET_RAW)
  // struct __user_cap_data_struct twice: effective, permitted, inheritable of the lower and the upper 32.
  const data = Buffer.alloc(24)
  data.writeUInt32LE(kept, 0)
  data.writeUInt32LE(kept, 4)
  sure('capset', capset(header, data))
  sure('PR_SET_NO_NEW_PRIVS', prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
  // The keys of signed zones are in memory.
  sure('PR_SET_DUMPABLE', prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
}
