/** libbpf's own words, which it would print to stderr: each warning goes to whoever made the call that it is about. */
import koffi, { type LibraryHandle } from 'koffi'

export type Hear = (warning: string) => void

export interface Warnings {
  /** `hear` gets the warnings of a synchronous call. */
  during<T>(hear: Hear, call: () => T): T
  /** `hear` gets the warnings of a call on the pool. Such calls wait for one another, else theirs would mix. */
  duringLater<T>(hear: Hear, call: () => Promise<T>): Promise<T>
}

/** Level of messages that tell of a failure (enum libbpf_print_level). */
const LEVEL_WARN = 0

/** Takes libbpf's messages off stderr. Those that nobody asked for and those below a warning go nowhere. */
export function tapWarnings(library: LibraryHandle, libc: LibraryHandle): Warnings {
  const nobody: Hear = () => undefined
  let current = nobody
  let lane: Promise<unknown> = Promise.resolve()

  const vsnprintf = libc.func('int vsnprintf(_Out_ void *text, size_t size, const void *format, void *values)')
  const text = Buffer.alloc(4096)
  // Called from the pool, koffi lets that thread wait while this runs here, so that the C arguments are still valid.
  const print = (level: number, format: bigint, values: bigint) => {
    if (level !== LEVEL_WARN || current === nobody) return 0
    const length = Math.min(vsnprintf(text, text.length, format, values), text.length - 1)
    current(text.toString('utf8', 0, length).trim())
    return 0
  }
  const hook = koffi.proto('int libbpf_print_fn(int level, const void *format, void *values)')
  library.func('void *libbpf_set_print(libbpf_print_fn *print)')(koffi.register(print, koffi.pointer(hook)))

  return {
    during(hear, call) {
      const before = current
      current = hear
      try {
        return call()
      } finally {
        current = before
      }
    },
    duringLater(hear, call) {
      const turn = lane.then(async () => {
        current = hear
        return call().finally(() => {
          current = nobody
        })
      })
      lane = turn.catch(nobody)
      return turn
    },
  }
}
