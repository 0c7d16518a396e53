/** BPF ring buffers: what programs tell, handed to a callback on the event loop within some 50 µs. */
import koffi from 'koffi'
import { type CallbackPointer, libbpf, present, type RingPointer } from './libbpf.ts'

/** Records taken before the event loop gets its turn: about half a millisecond's worth. */
const RECORDS_PER_TURN = 2048

export interface Ring {
  /** Ends the delivery; records still in the buffer stay there. */
  close(): void
  /** Lets the process end while the ring is open. */
  unref(): void
}

/**
 * Calls `onRecord` with a copy of every record of the ring buffer map behind `fd`, in order, including those that wait
 * in it already. What `onRecord` throws surfaces as an uncaught exception, and the next record follows. `fd` is not
 * needed afterwards.
 */
export function openRing(fd: number, onRecord: (record: Buffer) => void): Ring {
  const lib = libbpf()
  let left = 0
  let closed = false

  /** A negative answer ends the turn, this record being taken (ringbuf_process_ring of libbpf). */
  const take = (_context: null, data: bigint, size: number | bigint): number => {
    left -= 1
    try {
      onRecord(lib.copyOut(data, Number(size)))
    } catch (error) {
      // Neither libbpf nor koffi's poll can carry an exception: thrown here it would end in a crash much later.
      setImmediate(() => {
        throw error
      })
    }
    return left > 0 && !closed ? 0 : -1
  }

  const callback = lib.ringCallback(take)
  const ring = open(fd, callback)
  const free = () => {
    lib.freeRing(ring)
    lib.freeRingCallback(callback)
  }
  let consuming = false
  const poll = koffi.node.poll(lib.ringEpollFd(ring), { readable: true }, () => {
    left = RECORDS_PER_TURN
    consuming = true
    lib.consumeRing(ring)
    consuming = false
    if (closed) free()
  })

  return {
    close() {
      if (closed) return
      closed = true
      poll.close()
      // Closed by `onRecord`, the ring is still in libbpf's hands until the end of the turn.
      if (!consuming) free()
    },
    unref: () => poll.unref(),
  }
}

/** The callback is given back when there is no ring for it. */
function open(fd: number, callback: CallbackPointer): RingPointer {
  try {
    return present(libbpf().newRing(fd, callback, null, null), 'open the ring buffer')
  } catch (error) {
    libbpf().freeRingCallback(callback)
    throw error
  }
}
